"""A new database on the Citus coordinator that TEST_CITUS_URL names, and on its nodes, with the product's log-ins.

The address is a superuser's, of a database that has the extension and its nodes. All of them have to let the
coordinator in as the product's roles, too.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dj_database_url
import psycopg
from django.core.management import call_command
from django.db import connection, connections, transaction
from psycopg import sql

from convmemory.core.acting import Login
from convmemory.core.postgres import logins
from convmemory.core.postgres.base import close_pools
from convmemory.core.postgres.row_security import setup_script

CITUS_URL = os.environ.get("TEST_CITUS_URL", "")
PASSWORD = "of-a-test"
Place = dict[str, Any]
Logins = Mapping[Login, Mapping[str, str]]
LOGINS: Logins = {login: {"user": role, "password": PASSWORD} for login, role in logins.ROLES.items()}
LOGINS_OF_ONE: Logins = {}


@contextmanager
def database_with_nodes() -> Iterator[Place]:
    """Yield the address of a migrated database with nodes and roles; drop it after the block."""
    place = _place(CITUS_URL)
    name = f"test_nodes_{os.getpid()}"
    with psycopg.connect(**place) as link:
        nodes = link.execute("SELECT node_name, node_port FROM citus_get_active_worker_nodes()").fetchall()
    servers = [place, *({**place, "host": host, "port": port} for host, port in nodes)]
    for server in servers:
        _run({**server, "dbname": "postgres"}, f"CREATE DATABASE {name}")
        _run({**server, "dbname": name}, "CREATE EXTENSION citus")
    for server in servers[1:]:
        adding = sql.SQL("SELECT citus_add_node({}, {})").format(server["host"], server["port"])
        _run({**place, "dbname": name}, adding)
    made = {**place, "dbname": name}
    try:
        with nodes_in_use(made, LOGINS_OF_ONE):
            call_command("migrate", verbosity=0)
            with transaction.atomic(), connection.cursor() as cursor:
                for statement in setup_script(dict.fromkeys(logins.ROLES, PASSWORD)):
                    cursor.execute(statement)
        yield made
    finally:
        for server in servers:
            _run({**server, "dbname": "postgres"}, f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def nodes_in_use(place: Place, own_logins: Logins = LOGINS) -> Iterator[None]:
    """In the block everything goes to that database, as the product logs in."""
    values = connection.settings_dict
    before = dict(values)
    connections.close_all()
    names = {"HOST": "host", "PORT": "port", "USER": "user", "PASSWORD": "password", "NAME": "dbname"}
    values |= {name: place.get(key, "") for name, key in names.items()}
    values |= {"EMBEDDED_PATH": None, "ASSUME_ROLES": False, "LOGINS": own_logins}
    try:
        yield
    finally:
        connections.close_all()
        close_pools()
        values.clear()
        values.update(before)


def _place(url: str) -> Place:
    found: dict[str, Any] = dict(dj_database_url.parse(url))
    names = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD", "dbname": "NAME"}
    return {key: found[name] for key, name in names.items() if found.get(name)} | {"autocommit": True}


def _run(server: Place, statement: Any) -> None:
    with psycopg.connect(**server) as link:
        link.execute(statement)
