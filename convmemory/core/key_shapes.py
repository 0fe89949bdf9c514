"""Finds keys, tokens and passwords in text: by the formats of their issuers, and where they are assigned to a name.

A format is searched for only if its mark occurs in the text, so that most texts cost a few searches for literals. Every
expression is linear. Values without the variety of a real key count as examples and are ignored.

An assignment counts if the name ends in key, token, secret or password and the value is random: of 17.7 MB of real
transcripts, none was taken for one.

Source: the rules of gitleaks 8 (July 2026) for the formats, and the issuers' own documentation.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

LEAST_VARIETY = 3.0
"""The least entropy (Shannon) of a key in bits per character; words and repeated letters have less."""
LONG_CHARS = 512  # measured on 18 MB of transcripts: 0.31 s for all marks, 0.47 s with 4,096
BEGINNING = 3  # bytes of a mark that are looked up in long texts; marks are ASCII


@dataclass(frozen=True, slots=True)
class Shape:
    """The format of one issuer's keys. The secret is the first group, or the whole match without one."""

    kind: str
    marks: tuple[str, ...]  # every text with such a key contains one of them
    pattern: re.Pattern[str]
    least_variety: float = LEAST_VARIETY


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key in a text: its type and the characters that it occupies."""

    kind: str
    start: int
    end: int


_BREAK = r"(?:\\+[nrt]|[\s\"'+,])"
_PEM = re.compile(
    r"-----BEGIN[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:{_BREAK}{{0,40}}+[A-Za-z-]{{4,20}}: [^\n\\]{{0,200}}+){{0,4}}"
    rf"(?:{_BREAK}{{0,40}}+[A-Za-z0-9/+=_]{{8,}}+){{2,}}+"
    rf"(?:{_BREAK}{{0,40}}+=?[A-Za-z0-9/+=]{{0,8}}{_BREAK}{{0,40}}+-----END[ A-Z0-9_-]{{0,80}}-----)?"
)
_URL = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/?#@\"'<>\\`]{0,80}:([^\s/?#@\"'<>\\`]{3,200})@(?=[\w\[])"
)


# Values that are assigned to the name of a secret, in environments, JSON, YAML, code and command lines.
ASSIGNED = "assigned-secret"
SECRET_NAMES = ("key", "token", "secret", "password", "passwd", "passphrase", "pwd")
_VALUE = r"[\\\"'`]{0,4}([A-Za-z0-9+/_.~!@#$%^&*=-]{8,512})(?![\w(\[])"
_ASSIGNED = re.compile(
    r"(?:[kK]ey|KEY|oken|OKEN|ecret|ECRET|assw(?:or)?d|ASSW(?:OR)?D|assphrase|ASSPHRASE|pwd|PWD)"
    rf"[\\\"'`]{{0,4}}[ \t]{{0,4}}(?:=>|:=|[=:])[ \t]{{0,4}}{_VALUE}"
)
_OPTION = re.compile(rf"--(?:[a-z]{{1,20}}-){{0,3}}(?:key|token|secret|password)[ \t]{{1,4}}{_VALUE}")
_NAME_ENDS = ("key", "Key", "KEY", "oken", "OKEN", "ecret", "ECRET", "assw", "ASSW", "assph", "ASSPH", "pwd", "PWD")
_OTHER_NAMES = re.compile(
    r"(?i)(?:public|foreign|primary|cache|sort|partition|hash|idempotency|dedup\w{0,10}|row|object|map|storage|index|group|"
    r"unique|query|hot|lookup|item|parent|child|message|source|file|column|dictionary|dict|translation|i18n|data|node|edge|"
    r"page|next|prev|previous|sync|continuation|continue|cancel|cancellation|csrf|xsrf|stop|special|eos|bos|pad|mask|"
    r"start|end|delta|resume|cursor)[_ -]{0,1}(?:key|token)$"
)
_NAME = re.compile(r"[\w-]{1,60}\Z")
_PIECES = re.compile(r"[A-Za-z0-9+/]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WORDS = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}")


def _shape(kind: str, mark: str, pattern: str, least_variety: float = LEAST_VARIETY) -> Shape:
    return Shape(kind, tuple(mark.split()), re.compile(pattern), least_variety)


SHAPES: tuple[Shape, ...] = (
    Shape("private-key", ("PRIVATE KEY",), _PEM, 0.0),
    Shape("password-in-url", ("://",), _URL, 0.0),
    _shape("anthropic-key", "sk-ant-", r"\bsk-ant-[a-z]{3,10}\d{2}-[\w-]{80,120}"),
    _shape("openai-key", "T3BlbkFJ", r"\bsk-[\w-]{20,90}T3BlbkFJ[\w-]{20,90}"),
    _shape("openrouter-key", "sk-or-v1-", r"\bsk-or-v1-[a-f0-9]{64}\b"),
    _shape("aws-access-key-id", "AKIA ASIA ABIA ACCA", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    _shape(
        "aws-secret-key", "ecretAccessKey ecret_access_key ECRET_ACCESS_KEY",
        r"(?i:secret_?access_?key)[\\\"']{0,4}[\s:=]{1,10}[\\\"']{0,4}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
    ),
    _shape("aws-bedrock-key", "ABSK", r"\bABSK[A-Za-z0-9+/]{109,269}={0,2}"),
    _shape("google-api-key", "AIza", r"\bAIza[\w-]{35}(?![\w-])", 3.5),
    _shape("google-oauth-token", "ya29.", r"\bya29\.[\w-]{60,500}"),
    _shape("google-client-secret", "GOCSPX-", r"\bGOCSPX-[\w-]{28}(?![\w-])"),
    _shape("azure-client-secret", "Q~", r"(?<![\w~.])[\w~.]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])"),
    _shape("azure-storage-key", "AccountKey=", r"AccountKey=([A-Za-z0-9/+]{86}==)"),
    _shape("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[0-9A-Za-z]{36}(?![0-9A-Za-z])"),
    _shape("github-token", "github_pat_", r"\bgithub_pat_\w{82}(?!\w)"),
    _shape("gitlab-token", "glpat- gldt- glrt- glptt- glsoat-", r"\bgl(?:pat|dt|rt|ptt|soat)-[\w.-]{20,300}"),
    _shape("slack-token", "xox", r"\bxox[abeoprs]-[0-9A-Za-z-]{10,250}"),
    _shape("slack-token", "xapp-", r"\bxapp-\d-[A-Za-z0-9]{1,20}-\d{1,20}-[A-Za-z0-9]{20,120}"),
    _shape(
        "slack-webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{43,56}"
    ),
    _shape("stripe-key", "sk_test sk_live rk_test rk_live", r"\b[sr]k_(?:test|live)_[0-9A-Za-z]{10,99}"),
    _shape("stripe-webhook-secret", "whsec_", r"\bwhsec_[0-9A-Za-z+/]{24,64}"),
    _shape("twilio-key", "SK", r"\bSK[0-9a-f]{32}\b"),
    _shape("sendgrid-key", "SG.", r"\bSG\.[\w-]{16,32}\.[\w-]{32,64}"),
    _shape("mailgun-key", "key-", r"\bkey-[0-9a-f]{32}\b"),
    _shape("npm-token", "npm_", r"\bnpm_[0-9A-Za-z]{36}\b"),
    _shape("pypi-token", "pypi-AgEI", r"\bpypi-AgEI[\w-]{50,1000}"),
    _shape("rubygems-key", "rubygems_", r"\brubygems_[a-f0-9]{48}\b"),
    _shape("docker-token", "dckr_pat_", r"\bdckr_pat_[\w-]{27}(?![\w-])"),
    _shape("huggingface-token", "hf_", r"\bhf_[A-Za-z0-9]{34}\b"),
    _shape("replicate-token", "r8_", r"\br8_[A-Za-z0-9]{37}\b"),
    _shape("xai-key", "xai-", r"\bxai-[A-Za-z0-9]{60,100}\b"),
    _shape("tavily-key", "tvly-", r"\btvly-(?:dev-|prod-)?[A-Za-z0-9_-]{20,64}(?![\w-])"),
    _shape("langsmith-key", "lsv2_", r"\blsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}\b"),
    _shape("langfuse-key", "sk-lf-", r"\bsk-lf-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"),
    _shape("cerebras-key", "csk-", r"\bcsk-[a-z0-9]{48}\b"),
    _shape("nvidia-key", "nvapi-", r"\bnvapi-[\w-]{60,80}(?![\w-])"),
    _shape("together-key", "tgp_v1_", r"\btgp_v1_[\w-]{40,64}(?![\w-])"),
    _shape("fireworks-key", "fw_", r"\bfw_[A-Za-z0-9]{22,40}\b", 3.5),
    _shape("pinecone-key", "pcsk_", r"\bpcsk_[A-Za-z0-9_]{50,90}\b"),
    _shape("firecrawl-key", "fc-", r"\bfc-[0-9a-f]{32}\b"),
    _shape("elevenlabs-key", "sk_", r"\bsk_[0-9a-f]{48}\b"),
    _shape("supabase-key", "sbp_ sb_secret_", r"\b(?:sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,60})(?![\w-])"),
    _shape("figma-token", "figd_", r"\bfigd_[\w-]{38,60}(?![\w-])"),
    _shape("planetscale-token", "pscale_", r"\bpscale_(?:tkn|oauth|pw)_[\w.-]{32,64}(?![\w-])"),
    _shape("tailscale-key", "tskey-", r"\btskey-[a-z]{3,10}-[A-Za-z0-9]{8,24}(?:-[A-Za-z0-9]{20,40})?\b"),
    _shape("brevo-key", "xkeysib-", r"\bxkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}\b"),
    _shape("new-relic-key", "NRAK-", r"\bNRAK-[A-Z0-9]{27}\b"),
    _shape("atlassian-token", "ATATT3", r"\bATATT3[\w-]{100,300}={0,2}"),
    _shape("hubspot-token", "pat-", r"\bpat-(?:na|eu)\d-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"),
    # DeepSeek, DashScope, Moonshot, and OpenAI's of other generations share this form.
    _shape(
        "sk-key", "sk-", r"(?<![\w-])sk-(?:[a-z]{2,12}-){0,2}(?=[A-Za-z_]{0,64}\d)\w{20,200}(?:-\w{1,200}){0,20}", 3.3
    ),
    _shape("databricks-token", "dapi", r"\bdapi[a-f0-9]{32}\b"),
    _shape("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", r"\bdo[opr]_v1_[a-f0-9]{64}\b"),
    _shape("cloudflare-key", "v1.0-", r"\bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b"),
    _shape("heroku-key", "HRKU-", r"\bHRKU-[\w-]{60}(?![\w-])"),
    _shape("vault-token", "hvs. hvb.", r"\bhv[sb]\.[\w-]{90,300}"),
    _shape("grafana-token", "glsa_ glc_", r"\b(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,400}={0,3})"),
    _shape("sentry-token", "sntryu_ sntrys_", r"\bsntry(?:u_[a-f0-9]{64}|s_eyJ[A-Za-z0-9+/=_]{40,500})"),
    _shape("shopify-token", "shpat_ shpca_ shppa_ shpss_", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b"),
    _shape("square-token", "sq0atp- sq0csp-", r"\bsq0(?:atp|csp)-[\w-]{22,60}"),
    _shape("telegram-bot-token", ":AA", r"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])"),
    _shape("discord-webhook", "/api/webhooks/", r"/api/webhooks/(\d{17,20}/[\w-]{60,80})"),
    _shape("linear-key", "lin_api_", r"\blin_api_[0-9A-Za-z]{40}\b"),
    _shape("notion-token", "ntn_", r"\bntn_\d{11}[A-Za-z0-9]{35}\b"),
    _shape("postman-key", "PMAK-", r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}\b"),
    _shape("perplexity-key", "pplx-", r"\bpplx-[A-Za-z0-9]{48}\b"),
    _shape("groq-key", "gsk_", r"\bgsk_[A-Za-z0-9]{52}\b"),
    _shape("age-key", "AGE-SECRET-KEY-1", r"\bAGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    _shape("1password-token", "ops_eyJ", r"\bops_eyJ[A-Za-z0-9+/]{250,2000}={0,3}"),
    _shape("jwt", "eyJ", r"(?<![\w-])eyJ[\w-]{14,}+\.[\w-]{14,}+\.[\w-]{10,}+"),
    _shape(
        "authorization-header", "uthorization",
        r"(?i:authorization)[\\\"']{0,4}[\s:=]{1,5}[\\\"']{0,4}(?i:bearer|basic|token)\s{1,5}([\w.~+/-]{20,}+={0,2})",
        3.5,
    ),
    # Last: of two matches of one length the first counts, and another one names the issuer.
    Shape(ASSIGNED, _NAME_ENDS, _ASSIGNED, 0.0),
    Shape(ASSIGNED, ("--",), _OPTION, 0.0),
)  # fmt: skip

PATTERNS = tuple(shape.pattern for shape in SHAPES)
_MARKS = tuple(dict.fromkeys(mark for shape in SHAPES for mark in shape.marks))
_SHAPES_WITH = {mark: [n for n, shape in enumerate(SHAPES) if mark in shape.marks] for mark in _MARKS}
_RARE = ("_", "-", ":", ".")  # a text without one of these holds none of the marks that do
_MARKS_WITH = {
    rare: tuple(mark for mark in _MARKS if next((char for char in _RARE if char in mark), "") == rare)
    for rare in ("", *_RARE)
}
# The first bytes of each mark as a number, None if it has fewer.
_BEGINNINGS = {
    mark: int.from_bytes(mark[:BEGINNING].encode(), "big") if len(mark) >= BEGINNING else None for mark in _MARKS
}
_EXAMPLES = ("EXAMPLE", "example", "xxxx", "XXXX", "1234567890", "abcdefgh", "your", "YOUR", "****", "....")
_NO_PASSWORDS = frozenset(
    {
        *(
            "pass",
            "password",
            "passwd",
            "pwd",
            "secret",
            "user",
            "username",
            "token",
            "key",
            "postgres",
            "root",
            "admin",
        ),
        *(
            "test",
            "foo",
            "bar",
            "changeme",
            "example",
            "mypassword",
            "port",
            "pw",
            "xxx",
            "guest",
            "redacted",
            "hidden",
        ),
    }
)
MAX_IN_WORDS = 0.8  # of a random text, the share of letters in runs of three or more of one case
_ASSIGNMENT_END = re.compile(r"[\s\\\"'`=:>]{1,24}\Z")
_PLACEHOLDER_CHARS = frozenset("${}<>*[]()%…|;,")


def marks_in(text: str) -> frozenset[str]:
    """Return the marks of formats that occur in the text; without any, no part of it contains a key."""
    # In long texts, one vectorised pass over the bytes replaces a search for each of the marks.
    if len(text) < LONG_CHARS:
        return frozenset(mark for rare, marks in _MARKS_WITH.items() if rare in text for mark in marks if mark in text)
    import numpy as np

    codes = np.frombuffer(text.encode("utf-8", "replace"), dtype=np.uint8)
    pairs = codes[:-1].astype(np.uint16) << 8 | codes[1:]
    places = np.flatnonzero(_first_pairs()[pairs[:-1]])
    beginnings = frozenset(np.unique(pairs[places].astype(np.uint32) << 8 | codes[places + 2]).tolist())
    return frozenset(
        mark for mark, begin in _BEGINNINGS.items() if (begin is None or begin in beginnings) and mark in text
    )


def find_keys(text: str, *, among: frozenset[str] | None = None) -> list[FoundKey]:
    """Return the keys in the text, in order; if two formats match in one place, the longer match counts.

    `among` are the marks found in a larger text that contains this one, if known.
    """
    present = marks_in(text) if among is None else {mark for mark in among if mark in text}
    if not present:
        return []
    # In the order of SHAPES, in which of two matches of one length the first counts.
    numbers = sorted({number for mark in present for number in _SHAPES_WITH[mark]})
    keys = [key for number in numbers for key in _keys(SHAPES[number], text)]
    keys.sort(key=lambda key: (key.start, -key.end))
    chosen: list[FoundKey] = []
    for key in keys:
        if not chosen or key.start >= chosen[-1].end:
            chosen.append(key)
    return chosen


@cache
def _first_pairs() -> Any:
    """Return for each pair of bytes whether a mark of three or more bytes begins with it: (65536,) bool."""
    import numpy as np

    table = np.zeros(1 << 16, dtype=bool)
    table[[begin >> 8 for begin in _BEGINNINGS.values() if begin is not None]] = True
    return table


def _keys(shape: Shape, text: str) -> Iterator[FoundKey]:
    for match in _assignments(text) if shape.pattern is _ASSIGNED else shape.pattern.finditer(text):
        group = 1 if match.re.groups else 0
        value = match[group]
        if shape.kind == "password-in-url":
            plain = value.lower().strip("_-")
            is_real = not (
                plain in _NO_PASSWORDS or value.isdecimal() or _PLACEHOLDER_CHARS & set(value) or len(set(value)) < 3
            )
        elif shape.kind == ASSIGNED:
            value = value.partition("&")[0] if "?" in text[max(0, match.start() - 200) : match.start()] else value
            is_real = _is_assigned_secret(text[max(0, match.start() - 60) : match.start(1)], value)
        else:
            is_real = not any(mark in value for mark in _EXAMPLES) and variety(value) >= shape.least_variety
        if is_real or shape.kind == "private-key":
            yield FoundKey(shape.kind, match.start(group), match.start(group) + len(value))


def _assignments(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of `_ASSIGNED`: looking up the ends of names first takes half the time of searching for all."""
    for end in _NAME_ENDS:
        at = text.find(end)
        while at >= 0:
            match = _ASSIGNED.match(text, at)
            if match:
                yield match
            at = text.find(end, at + len(end))


def _is_assigned_secret(before: str, value: str) -> bool:
    """Return whether a value is random enough to be a secret, after a text that ends with its name."""
    name_end = _ASSIGNMENT_END.sub("", before)
    match = _NAME.search(name_end)
    name = match[0] if match else ""
    if any(mark in value for mark in _EXAMPLES) or _OTHER_NAMES.search(name) or _UUID.fullmatch(value):
        return False
    if name.lower().endswith(("key", "token", "secret")):
        piece = max(_PIECES.findall(value), key=len, default="")
        if len(piece) < 16 or variety(piece) < LEAST_VARIETY or "/" in piece[:1]:
            return False
        has_digits, has_letters = any(map(str.isdigit, piece)), any(map(str.isalpha, piece))
        in_words = sum(map(len, _WORDS.findall(piece)))
        return has_digits and has_letters and in_words <= len(piece) * MAX_IN_WORDS
    has_kinds = sum(any(map(test, value)) for test in (str.islower, str.isupper, str.isdigit, _is_sign))
    is_placeholder = value.startswith(("$", "%", "*")) or "***" in value
    return has_kinds >= 3 and variety(value) >= 2.75 and not is_placeholder


def _is_sign(char: str) -> bool:
    return not char.isalnum()


def variety(text: str) -> float:
    """Return the entropy of the first 1,000 characters in bits per character."""
    sample = text[:1000]
    counts = Counter(sample)
    return -sum(count / len(sample) * math.log2(count / len(sample)) for count in counts.values())
