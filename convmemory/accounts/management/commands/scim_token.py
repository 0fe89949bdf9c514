"""`manage.py scim_token create NAME [--staff] | list | revoke NUMBER`: the tokens with which directories use SCIM."""

from argparse import ArgumentParser
from typing import Any

from convmemory.accounts.models import ScimToken
from convmemory.accounts.scim.tokens import active_token, active_tokens, create_token, revoke_token
from convmemory.core.commands import ArchiveCommand


class Command(ArchiveCommand):
    help = "Create a SCIM token (printed only once, alone on the last line), list the active ones, or revoke one."
    usages = ("create name [--staff]", "list", "revoke number [--yes]")

    def add_arguments(self, parser: ArgumentParser) -> None:
        todo = parser.add_subparsers(dest="todo", required=True)
        creation = todo.add_parser("create")
        creation.add_argument("name", help="the directory that uses it")
        creation.add_argument("--staff", action="store_true", help="it also changes and deactivates staff")
        todo.add_parser("list")
        revoke = todo.add_parser("revoke")
        revoke.add_argument("number", type=int, help="the token's number, as `list` shows it")
        revoke.add_argument("--yes", action="store_true", help="do not ask before it is revoked")

    def handle(self, *args: Any, todo: str, **options: Any) -> None:
        match todo:
            case "create":
                token = create_token(name=options["name"], reaches_staff=options["staff"])
                if not options["staff"]:
                    self.stdout.write("It reaches no staff, and deactivates none who leave: `--staff` allows that.")
                self.stdout.write("The token is shown only now; the directory sends it to PUBLIC_URL/scim/v2:")
                self.stdout.write(token)
            case "revoke":
                number = options["number"]
                self.confirm(
                    [f"Will be revoked for good: SCIM token {_shown(active_token(token_id=number))}"],
                    refusal="Nothing was revoked.",
                    is_agreed=options["yes"],
                )
                revoke_token(token_id=number)
                self.stdout.write(f"SCIM token {number} is revoked.")
            case _:
                for row in active_tokens():
                    self.stdout.write(_shown(row))


def _shown(row: ScimToken) -> str:
    used = f"last used {row.last_used_at:%Y-%m-%d %H:%M}" if row.last_used_at else "never used"
    staff = ", reaches staff" if row.reaches_staff else ""
    return f"{row.pk}  {row.name}, made {row.created_at:%Y-%m-%d}, {used}{staff}"
