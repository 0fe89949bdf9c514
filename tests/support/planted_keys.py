"""Keys of many kinds, made up here and put together at run time: no file of this project holds one."""

import json
import random
import string
from html import escape

from convmemory.core.key_shapes import find_keys

_LETTERS = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"


def planted_keys(seed: int = 7) -> dict[str, str]:
    """A text with one key in it, by the kind that is to be found."""
    draw = random.Random(seed)

    def some(count: int, alphabet: str = _LETTERS) -> str:
        return "".join(draw.choices(alphabet, k=count))

    upper = string.ascii_uppercase + "234567"
    body = "\n".join(some(64, _LETTERS + "+/") for _ in range(8))
    return {
        "anthropic-key": "sk-ant-" + "api03-" + some(93) + "AA",
        "aws-access-key-id": "AK" + "IA" + some(16, upper),
        "aws-secret-key": "aws_secret_access_key = " + some(40),
        "azure-client-secret": "x8T8" + "Q~" + some(34),
        "digitalocean-token": "dop_" + "v1_" + some(64, _HEX),
        "github-token": "gh" + "p_" + some(36),
        "gitlab-token": "gl" + "pat-" + some(20),
        "google-api-key": "AI" + "za" + some(35),
        "huggingface-token": "h" + "f_" + some(34, string.ascii_letters),
        "jwt": "ey" + "J" + some(30) + ".ey" + "J" + some(60) + "." + some(43),
        "npm-token": "np" + "m_" + some(36),
        "openai-key": "sk-" + "proj-" + some(74) + "T3Blbk" + "FJ" + some(74),
        "password-in-url": "postgresql://ada:" + some(14) + "@db.bakery.example:5432/orders",
        "private-key": "-----BEGIN RSA PRIVATE" + " KEY-----\n" + body + "\n-----END RSA PRIVATE" + " KEY-----",
        "pypi-token": "py" + "pi-AgEI" + some(90),
        "sendgrid-key": "S" + "G." + some(22) + "." + some(43),
        "slack-token": "xo" + "xb-" + some(12, string.digits) + "-" + some(13, string.digits) + "-" + some(24),
        "stripe-key": "sk_" + "live_" + some(24),
        "telegram-bot-token": some(1, "123456789") + some(9, string.digits) + ":" + "AA" + some(33),
        "authorization-header": "Authorization: Bearer " + some(48),
        "sk-key": "sk" + "-" + some(32, _HEX),
        "xai-key": "xa" + "i-" + some(80),
        "replicate-token": "r" + "8_" + some(37),
        "tavily-key": "tv" + "ly-dev-" + some(32),
        "langsmith-key": "ls" + "v2_pt_" + some(32, _HEX) + "_" + some(10, _HEX),
        "langfuse-key": "sk-" + "lf-" + "-".join(some(count, _HEX) for count in (8, 4, 4, 4, 12)),
        "cerebras-key": "cs" + "k-" + some(48, string.ascii_lowercase + string.digits),
        "nvidia-key": "nv" + "api-" + some(64),
        "together-key": "tg" + "p_v1_" + some(43),
        "fireworks-key": "f" + "w_" + some(24),
        "pinecone-key": "pc" + "sk_" + some(5) + "_" + some(63),
        "firecrawl-key": "f" + "c-" + some(32, _HEX),
        "elevenlabs-key": "s" + "k_" + some(48, _HEX),
        "supabase-key": "sb" + "p_" + some(40, _HEX),
        "figma-token": "fi" + "gd_" + some(40),
        "planetscale-token": "psc" + "ale_tkn_" + some(43),
        "tailscale-key": "ts" + "key-auth-" + some(16) + "-" + some(32),
        "brevo-key": "xkey" + "sib-" + some(64, _HEX) + "-" + some(16),
        "new-relic-key": "NR" + "AK-" + some(27, string.ascii_uppercase + string.digits),
        "atlassian-token": "ATA" + "TT3" + some(180) + "=8",
        "hubspot-token": "pat" + "-eu1-" + "-".join(some(count, _HEX) for count in (8, 4, 4, 4, 12)),
        "assigned-secret": "COPPERBEECH_API_KEY=" + some(40),
    }


PLANTED = planted_keys()


def secret(kind: str) -> str:
    """Return the part of the planted text of this kind that must be hidden."""
    [found] = find_keys(PLANTED[kind])
    return PLANTED[kind][found.start : found.end]


def leaks(text: str) -> list[str]:
    """The kinds of the planted keys that stand in the text, whole, in their JSON form or in their HTML form."""
    forms = {kind: {secret(kind), json.dumps(secret(kind))[1:-1], escape(secret(kind))} for kind in PLANTED}
    return [kind for kind, values in forms.items() if any(value in text for value in values)]
