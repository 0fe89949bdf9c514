"""`manage.py dbshell` on the embedded server, with its own `psql`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.db.backends.postgresql.client import DatabaseClient

from convmemory.core import embedded
from convmemory.core.postgres import configuration, programs


class EmbeddedDatabaseClient(DatabaseClient):
    """Finds the embedded server's socket and `psql`; Django itself handles an external database."""

    @classmethod
    def settings_to_cmd_args_env(
        cls, settings_dict: dict[str, Any], parameters: Iterable[str]
    ) -> tuple[list[str], dict[str, str] | None]:
        if not (folder := settings_dict.get("EMBEDDED_PATH")):
            return super().settings_to_cmd_args_env(settings_dict, parameters)
        socket_dir = embedded.join(Path(folder), settings_dict.get("EMBEDDED_OPTIONS"))
        address = {"HOST": str(socket_dir), "PORT": configuration.PORT}
        arguments, environment = super().settings_to_cmd_args_env({**settings_dict, **address}, parameters)
        return [str(programs.binary("psql")), *arguments[1:]], environment
