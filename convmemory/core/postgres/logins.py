"""The parameters with which each log-in connects to the database (see `acting.py`); read with the settings."""

from typing import Any

import dj_database_url

from convmemory.core.acting import Login
from convmemory.core.errors import SettingError

ROLES = {Login.APP: "convmemory_app", Login.MAINTENANCE: "convmemory_maintenance"}
EMBEDDED: dict[Login, dict[str, Any]] = {login: {"user": role} for login, role in ROLES.items()}
PARAMETERS = {"USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port", "NAME": "dbname"}


def external(app_url: str, maintenance_url: str) -> dict[Login, dict[str, Any]]:
    """Return the log-ins of an external server, none if neither address is given.

    Raises: SettingError if one of them is missing.
    """
    if bool(app_url) != bool(maintenance_url):
        raise SettingError("Set both DATABASE_APP_URL and DATABASE_MAINTENANCE_URL, or neither: each needs the other.")
    urls = {Login.APP: app_url, Login.MAINTENANCE: maintenance_url} if app_url else {}
    logins = {}
    for login, url in urls.items():
        parsed: dict[str, Any] = dict(dj_database_url.parse(url))
        logins[login] = {name: parsed[key] for key, name in PARAMETERS.items() if parsed.get(key)}
        logins[login] |= dict(parsed.get("OPTIONS", {}))
    return logins
