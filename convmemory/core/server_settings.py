"""The settings of database, web server, sign-in, mail and queue, declared as in `convmemory.core.config`."""

import os

from convmemory.core import program
from convmemory.core.program import COMMAND
from convmemory.core.setting_kinds import (
    boolean,
    choice,
    folder,
    header,
    identity_providers,
    names,
    proxies,
    seconds,
    secret,
    secret_address,
    text,
    whole,
)


class ServerSettings:
    """The first part of the settings in force; see `convmemory.core.config.Config`."""

    # Data and database

    var_dir = folder(
        program.data_folder(),
        "where the embedded database, the model and the signing key lie",
        shown="`var/` of a checkout; `~/.local/share/convmemory-server/` of an installed package",
        variable="CONVMEMORY_VAR",
    )
    database_url = secret_address(
        "the address of a PostgreSQL (15 or newer, with pgvector 0.8 or newer) of your own; empty: the embedded "
        "PostgreSQL 18"
    )
    database_app_url = secret_address(
        f"with `DATABASE_URL`: the same database with the log-in of the application, which `{COMMAND} setup_roles` "
        "makes; empty: all work is done with the log-in of `DATABASE_URL` ([ADR 66](adr/0066-row-level-security.md))"
    )
    database_maintenance_url = secret_address(
        "with `DATABASE_URL`: the same database with the log-in of maintenance (sweeps, the admin, commands), which "
        f"`{COMMAND} setup_roles` makes"
    )
    database_pool_size = whole(
        8, 1, 1000, "connections to the database that each process keeps for each of its log-ins"
    )

    # Web server

    host = text("", "the address of this machine at which the web server listens", shown="127.0.0.1")
    port = whole(8000, 0, 65_535, "the port at which the web server listens")
    allowed_hosts = names(
        ("localhost", "127.0.0.1", "[::1]"),
        "the host names under which people reach the server, separated by commas",
        shown="local names",
    )
    csrf_trusted_origins = names(
        (),
        "the addresses, such as `https://chat.example.org`, from whose pages forms may be sent: those of "
        "`ALLOWED_HOSTS` behind a proxy with HTTPS; separated by commas",
    )
    https_only = boolean(
        "1: browsers are led to HTTPS and keep cookies to it; the proxy has to set `X-Forwarded-Proto`, which is "
        "trusted",
        default=False,
    )
    hsts_seconds = whole(
        30 * 24 * 3_600,
        0,
        157_680_000,
        "with `HTTPS_ONLY`: seconds for which browsers refuse plain HTTP after a response over HTTPS; 0: they never do",
    )
    secure_hsts_include_subdomains = boolean(
        "1: what `HSTS_SECONDS` says holds for all subdomains, too, which may be other servers",
        default=False,
        variable="HSTS_SUBDOMAINS",
    )
    forwarded_allow_ips = proxies(
        "addresses and networks of proxies whose `X-Forwarded-For` is trusted, separated by commas; empty: none, "
        "not even one on this machine"
    )
    secret_key = secret(
        "the key that signs sessions and links, and encrypts kept uploads and hidden keys: the same for all processes",
        shown="generated once",
    )

    # Signing in

    oidc_providers = identity_providers(
        "identity providers with which people sign in, as JSON: [Identity providers](signing-in.md#identity-providers)"
    )
    remote_user_header = header(
        "a header such as `X-Forwarded-User` in which a proxy of `FORWARDED_ALLOW_IPS` names who is signed in: "
        "[Sign-in by a proxy](signing-in.md#sign-in-by-a-proxy)",
    )
    remote_user_scim = boolean(
        "1: the proxy of `REMOTE_USER_HEADER` names people by the userName or externalId that "
        "[SCIM](signing-in.md#a-directory-by-scim) gives them; at their first sign-in they get the account that SCIM "
        "made",
        default=False,
    )
    remote_groups_header = header(
        "a header in which the proxy of `REMOTE_USER_HEADER` names the groups of the person, separated by commas"
    )
    remote_staff_groups = names(
        (), "groups in `REMOTE_GROUPS_HEADER` whose members are staff; empty: that header makes no one staff"
    )
    remote_sign_out_url = text(
        "",
        "the address at which the proxy of `REMOTE_USER_HEADER` ends its own session, such as "
        "`https://id.example.org/oauth2/sign_out`",
    )
    sso_only = boolean(
        "1: no password is accepted, chosen or reset; people sign in by `OIDC_PROVIDERS` or `REMOTE_USER_HEADER` "
        "alone, programs by their keys",
        default=False,
    )

    require_second_factor = choice(
        "off",
        ("off", "staff", "all"),
        "the people who need more than a password: `staff` and superusers, or `all`; without a second factor they "
        "set one up after the next right password ([Second factors](signing-in.md#second-factors))",
    )

    # E-mail

    email_host = text(
        "",
        "the SMTP server that sends invitations, links to reset passwords, and notices, with links that begin with "
        "`PUBLIC_URL`; empty: no mail is sent, and administrators pass the links on ([operation.md](operation.md))",
    )
    email_port = whole(587, 1, 65_535, "the port of `EMAIL_HOST`")
    email_security = choice(
        "starttls",
        ("starttls", "tls", "none"),
        "how mail is encrypted on its way to `EMAIL_HOST`: `starttls`, `tls` from the first byte (port 465), or `none` "
        "for a server on this machine",
    )
    email_host_user = text("", "the user name at `EMAIL_HOST`, if it asks for one")
    email_host_password = secret("the password at `EMAIL_HOST`")
    email_from = text("", "the address from which mail is sent", shown="`convmemory@` and the host of `PUBLIC_URL`")
    email_timeout_s = seconds(15.0, "seconds for which `EMAIL_HOST` may be silent")
    alert_emails = names(
        (),
        "addresses, separated by commas, that are mailed what the hourly `doctor` finds newly wrong; `none`: no one is",
        shown="those of superusers",
    )

    # Queue and fairness

    # At least three: one that no long task takes, and places for the long tasks of two people.
    workers = whole(
        max(3, os.cpu_count() or 1),
        1,
        1024,
        f"number of worker processes that `{COMMAND} up` starts; all workers but one can do long work (imports, "
        "documents, drawings, archives, summaries) at the same time, and one user leaves a place for another's; with "
        "two there is one place for all, with one it does nothing else meanwhile ([ADR "
        "24](adr/0024-fair-scheduling-by-owner.md))",
        shown="number of cores but at least 3",
    )
    web_workers = whole(1, 1, 1_024, f"number of web processes that `{COMMAND} up` starts")
    task_timeout_s = whole(
        600, 10, 86_400, "seconds that one background task may take; imports have `IMPORT_TIMEOUT_S`"
    )
    task_slice_s = seconds(
        3.0,
        "seconds after which a task of one user yields to those of others "
        "([ADR 24](adr/0024-fair-scheduling-by-owner.md))",
    )
    requests_per_user = whole(4, 1, 100_000, "requests of one user that a web process handles at once")
    requests_beside_others = whole(
        1,
        1,
        100_000,
        "requests that a web process handles at once of a user who has recently taken much of its time, while others "
        "are active",
    )
    streams_per_user = whole(
        64,
        1,
        100_000,
        "responses of one user at once that are streamed or wait for a language model, in one web process; an address "
        "without a key or session has at most 2, and all of those together half of `DATABASE_POOL_SIZE`",
    )
    waiting_per_user = whole(
        64,
        0,
        100_000,
        "requests of one user that may wait beyond those that a web process handles; more are refused with 429",
    )
