"""Named SQL: what the ORM cannot say lives in `.sql` files, loaded by name.

A file holds one statement; its first line is a comment that says what it answers.
"""

from functools import cache
from importlib import resources


@cache
def load_sql(package: str, name: str) -> str:
    """The statement in `<package>/sql/<name>.sql`."""
    return resources.files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
