# ruff: noqa: RUF001 (letters of many scripts)
"""Decodes text whose encoding is not known: by its byte order mark, as UTF-8, as it declares, or by its letters. Pure.

A legacy encoding is guessed from a bounded sample: each candidate that decodes it is scored by how common its letters
are in the languages written in it, and by what no writer does, such as a capital inside a word (ADR 127).
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

SAMPLE_BYTES = 4_096
BEFORE_BYTES = 512
DECLARATION_BYTES = 8_192
# With a smaller lead over a candidate that reads otherwise, or a lower score, a guess is doubtful.
CERTAIN_LEAD, CERTAIN_SCORE = 0.12, 0.45
_MARKS = (  # those of UTF-32 first: one begins with one of UTF-16
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WIDE_MARKS = tuple(mark for mark, name in _MARKS if name != "utf-8-sig")
PROSE_SUFFIXES = frozenset({".txt", ".md", ".markdown"})
TEXT_SUFFIXES = PROSE_SUFFIXES | {".json", ".jsonl", ".ndjson", ".csv", ".html", ".htm"}
_ESCAPES = re.compile(rb"\x1b(?:\$[@B]|\([BJI]|\$\)[CA])")
_HIGH = re.compile(rb"[\x80-\xff]")
# Browsers read these names as the larger encoding, which is what the programs wrote that use them.
_LARGER = {
    "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs",
}  # fmt: skip
_LABELS = {
    "cp932": "Shift-JIS", "euc_jp": "EUC-JP", "cp949": "EUC-KR", "big5hkscs": "Big5", "cp874": "TIS-620",
    "mac_roman": "Mac Roman", "mac_cyrillic": "Mac Cyrillic", "iso2022_jp_ext": "ISO-2022-JP",
}  # fmt: skip
_XML_DECLARATION = re.compile(rb"""\s{0,9}<\?xml\s[^<>]{0,200}?encoding\s{0,9}=\s{0,9}["']([\w.:-]{1,40})""")
_META = re.compile(rb"""<meta\s[^<>]{0,400}?charset\s{0,9}=\s{0,9}["']?\s{0,9}([\w.:-]{1,40})""", re.IGNORECASE)
_WINDOWS = re.compile(r"cp125\d")
_WORD = re.compile(r"\w+")
_WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
_PUNCTUATION = frozenset("–—‘’“”„…«»‹›•°§№€©®™·¿¡\u00a0\u00ad‚†²³½")
_IN_WORDS = frozenset("’–\u00a0\u00ad”“»…")
_EAST_ASIAN_PUNCTUATION = frozenset("、。，．：；！？「」『』（）《》〈〉【】“”‘’…—・ー～\u3000·〜")


@dataclass(frozen=True, slots=True)
class Charset:
    """An encoding by the name of Python's codec. `is_guess` if nothing in the file proves it."""

    name: str
    is_guess: bool = False
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class _Writing:
    """Languages of one script: encodings, letters beyond ASCII from the most to the least common, frequent words."""

    encodings: tuple[str, ...]
    letters: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class _EastAsian:
    """A language of many characters: encodings, first and last character of each block, and the most common ones."""

    encodings: tuple[str, ...]
    blocks: tuple[tuple[str, str], ...]
    common: frozenset[str]

    @property
    def has_kana(self) -> bool:
        return len(self.blocks) > 1


_WESTERN = ("cp1252", "mac_roman", "cp850")
_CENTRAL = ("cp1250", "iso8859_2", "cp852")
_CYRILLIC = ("cp1251", "koi8_r", "koi8_u", "cp866", "iso8859_5", "mac_cyrillic")
WRITINGS = (
    _Writing(_WESTERN, "äüöß", "der die und das den von zu ist mit nicht auf für ein eine im dem sich des es"),
    _Writing(_WESTERN, "éèàêçôûîùâïëœæ", "le la les de des et est un une du pour dans que qui pas sur ce il en"),
    _Writing(_WESTERN, "óíáéñúü¿¡", "el la los las de que y en un una por con para es no se del al lo"),
    _Writing(_WESTERN, "ãçáéóêõíúâàô", "o a os as de que e em um uma para com não do da no na por se"),
    _Writing(_WESTERN, "èàùòìé", "il la le di che e un una per con non del della in da al è si"),
    _Writing(_WESTERN, "äåöé", "och att det som en på är av för med den till inte ett om ja on ei se että"),
    _Writing(_WESTERN, "øåæé", "og at det som en på er av for med den til ikke et om de i af"),
    _Writing(_WESTERN, "íáðéþúóæöý", "og að er í á sem til við um það ekki fyrir"),
    _Writing(_WESTERN, "ëéïèüöç", "de het een en van is niet dat op te in met voor zijn nje të për që"),
    _Writing(_CENTRAL, "łąęóżśćńź", "i w na z do nie się to jest że od po za o jak dla"),
    _Writing(_CENTRAL, "íáéěřžýčšůúďťňóľĺŕôä", "a se na je v to že s z do o ve po pro si jako sa za"),
    _Writing(_CENTRAL, "áéöőóíüúű", "a az és hogy nem is egy van meg de el ki ez ha"),
    _Writing(_CENTRAL, "ăîâşţșțŞŢ", "și de la cu în pe un o nu este din pentru care sa"),
    _Writing(_CENTRAL, "čšžćđ", "i je u na se da za ne su od s o in ki so ali"),
    _Writing(("cp1254",), "ıüşçğöİâî", "ve bir bu için ile de da olarak daha çok ne"),
    _Writing(("cp1257",), "ėšųūžįąčęāēīņļģķõäöü", "ir un ar no par ja et ei see kad su iš"),
    _Writing(_CYRILLIC, "оеаинтсрвлмкдпуяыьгзбчйхжшюцщэфёъ"),
    _Writing(("cp1251", "koi8_u", "cp866", "iso8859_5", "mac_cyrillic"), "оаинвтрелсдкмупзяьбгйчхіїжєшцющфґ’ў"),
    _Writing(("cp1251", "iso8859_5"), "аоиенрстјвукдпљмзгбњљцхчћшђжџфѓќѕ"),
    _Writing(("cp1253", "iso8859_7"), "αοιετσνηυρπκμλςωάίόέήδγχθφύώβξζψϊϋΐΰ"),
    _Writing(("cp1255",), "יולהאמתברשנכדםקעפטחגצןסזךףץ" + "".join(map(chr, range(0x5B0, 0x5C3)))),
    _Writing(("cp1256", "iso8859_6"), "اليمنرتبهودعسكفقحجشخصطثزذضغظءةأإىئؤآپگچژکی،؟ًٌٍَُِّْـ"),
    _Writing(("cp874",), "านรอกเงมยลวดตสทปคบหแขจพชใไผซถธโศณฐษภฟฉญฎฏฬฮ" + "".join(map(chr, range(0xE30, 0xE4F)))),
)  # fmt: skip
EAST_ASIAN = (
    _EastAsian(
        ("cp932", "euc_jp"),
        (("\u3041", "\u3093"), ("\u30a1", "\u30f6")),
        frozenset(
            "のにはをたがでてとしれさいるなもこすあらんかりきスルトンーアイラ日本人大年会国中出時行生分後前上的事者社長月定場合"
        ),
    ),
    _EastAsian(
        ("gb18030",),
        (("\u4e00", "\u9fff"),),
        frozenset(
            "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行"
            "所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心本前开但因只从想实日期项目务服计划责"
        ),
    ),
    _EastAsian(
        ("big5hkscs",),
        (("\u4e00", "\u9fff"),),
        frozenset(
            "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行"
            "所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心本前開但因只從想實日期項目務服計畫責"
        ),
    ),
    _EastAsian(
        ("cp949",),
        (("\uac00", "\ud7a3"),),
        frozenset(
            "이다는의에을가고하로한지를은기서도사그리어자시대인나있정들라아수일해보부과전것제으스상여만성장면조원세주게할우구동"
            "경무유당때진없비관생공신실었했러오음회안화합니습완료"
        ),
    ),
)


def decode_text(data: bytes, *, declared: str = "") -> tuple[str, list[str]]:
    """Return the text, and notes where its letters may be wrong. Line ends are unchanged."""
    charset = charset_of(data, declared=declared)
    try:
        return data.decode(charset.name), notes_on(charset)
    except UnicodeDecodeError:
        text = data.decode(charset.name, "replace")
        return text, notes_on(charset, lost=text.count("\ufffd"))


def other_charset(name: str, start: bytes) -> Charset | None:
    """Return the encoding of a text that is not in UTF-8, by its beginning; None for any other file.

    Importers read UTF-8 only. A guess that is in doubt is made for prose alone: in JSON a stray byte is damage.
    """
    suffix = PurePath(name).suffix.lower()
    if not start.startswith(_WIDE_MARKS) and b"\0" not in start[:SAMPLE_BYTES] and suffix not in TEXT_SUFFIXES:
        return None
    charset = charset_of(start, declared=declared_charset(start))
    if charset.name in ("utf-8", "utf-8-sig"):
        return None
    is_binary = b"\0" in start[:SAMPLE_BYTES] and not charset.name.startswith(("utf-16", "utf-32"))
    return None if is_binary or not (charset.is_certain or suffix in PROSE_SUFFIXES) else charset


def declared_charset(data: bytes) -> str:
    """Return the encoding that a page or an XML file names at its beginning, "" for none."""
    named = _XML_DECLARATION.match(data) or _META.search(data, 0, DECLARATION_BYTES)
    return named[1].decode("ascii") if named else ""


def notes_on(charset: Charset, *, lost: int = 0) -> list[str]:
    """Return what the reader of a text should know of how it was decoded."""
    notes = []
    label = label_of(charset.name)
    if charset.is_guess:
        doubt = "was read as" if charset.is_certain else "may be wrong: it was read as"
        notes.append(
            f"The file does not name its encoding; its text {doubt} {label}. If letters are wrong, save it as UTF-8."
        )
    if lost:
        what = "1 character" if lost == 1 else f"{lost:,} characters"
        notes.append(f"{what} could not be decoded as {label}: save the file as UTF-8.")
    return notes


def label_of(name: str) -> str:
    """Return the name under which people know the encoding."""
    if _WINDOWS.fullmatch(name):
        return f"windows-{name.removeprefix('cp')}"
    return _LABELS.get(name, name.upper().replace("ISO8859", "ISO-8859").replace("_", "-"))


def charset_of(data: bytes, *, declared: str = "") -> Charset:
    """Return the encoding of a text, of which `data` is all, or the beginning up to a character's middle."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return Charset(name)
    if wide := _wide(data[:SAMPLE_BYTES]):
        return Charset(wide)
    if _decodes(data, "utf-8"):
        if _ESCAPES.search(data, 0, SAMPLE_BYTES) and _decodes(data, "iso2022_jp_ext"):
            return Charset("iso2022_jp_ext")
        return Charset("utf-8")
    name = _known(declared)
    if name and _decodes(data, name):
        return Charset(name)
    sample = sample_of(data)
    text = sample.decode("utf-8", "replace")
    damaged = text.count("\ufffd")
    if sum(char > "\x7f" for char in text) - damaged > 2 * damaged:  # most bytes beyond ASCII form characters of UTF-8
        return Charset("utf-8")
    scores = sorted(_scores(sample), key=lambda scored: -scored[0])
    if not scores:
        return Charset(name or "cp1252", is_guess=not name, is_certain=False)
    score, best, text = scores[0]
    rival = next((other for other, _, read in scores if read != text), -9.0)
    return Charset(best, is_guess=True, is_certain=score >= CERTAIN_SCORE and score - rival >= CERTAIN_LEAD)


def sample_of(data: bytes) -> bytes:
    """Return the text around the first bytes that are not ASCII: the rest of the file says nothing more."""
    first = _HIGH.search(data)
    start = max(0, first.start() - BEFORE_BYTES) if first else 0
    return data[start : start + BEFORE_BYTES + SAMPLE_BYTES]


def _known(declared: str) -> str:
    """Return Python's name for a declared encoding, "" for an unknown one and for those that are no text."""
    try:
        name = codecs.lookup(declared.strip().strip("\"'")).name if declared else ""
        # That a text is ASCII is not so where it is asked here.
        return _LARGER.get(name, name) if name not in ("", "ascii") and codecs.lookup(name)._is_text_encoding else ""
    except (LookupError, ValueError):
        return ""


def _decodes(data: bytes, name: str) -> bool:
    return _decoded(data, name) is not None


def _decoded(data: bytes, name: str) -> str | None:
    """Return the text, without a character that is cut off at the end; None if it cannot be decoded."""
    try:
        return codecs.getincrementaldecoder(name)("strict").decode(data)
    except (UnicodeError, LookupError):
        return None


def _wide(sample: bytes) -> str:
    """Return UTF-16 or UTF-32 without a byte order mark; "" for text without NUL bytes, and for no text."""
    if b"\0" not in sample:
        return ""
    texts = {name: text for name in _WIDE if (text := _decoded(sample, name)) and _is_plain(text)}
    return max(texts, key=lambda name: sum(map(str.isascii, texts[name])) / len(texts[name]), default="")


def _is_plain(text: str) -> bool:
    """Return whether a text holds no NUL, hardly any characters that are not written, and some of ASCII."""
    if "\0" in text:
        return False
    unwritten = sum(not (char.isprintable() or char.isspace()) for char in text)
    return unwritten * 50 <= len(text) and any(map(str.isascii, text))


def _scores(sample: bytes) -> Iterator[tuple[float, str, str]]:
    """Yield score, encoding and text for each encoding in which the sample can be read."""
    names = dict.fromkeys(name for writing in (*WRITINGS, *EAST_ASIAN) for name in writing.encodings)
    texts = {name: text for name in names if (text := _decoded(sample, name))}
    for writing in WRITINGS:
        for rank, name in enumerate(writing.encodings):
            if name in texts:
                yield _letters_score(texts[name], writing) - 0.03 * rank, name, texts[name]
    for east_asian in EAST_ASIAN:
        for name in east_asian.encodings:
            if name in texts:
                yield _characters_score(texts[name], east_asian), name, texts[name]
    for name in ("utf-16-le", "utf-16-be"):
        text = _decoded(sample, name) if len(sample) % 2 == 0 else None
        if text and not any(map(str.isascii, text)):
            yield max(_characters_score(text, east_asian) for east_asian in EAST_ASIAN), name, text


def _letters_score(text: str, writing: _Writing) -> float:
    worth = {letter: 1 - 0.5 * rank / len(writing.letters) for rank, letter in enumerate(writing.letters)}
    total, count, before = 0.0, 0, " "
    for char in text:
        if char > "\x7f":
            count += 1
            low = char.lower() if char not in worth else char
            if low in worth:
                total += worth[low]
            elif char in _PUNCTUATION:
                total += 0.8 if not before.isalpha() or char in _IN_WORDS else 0.0
            else:
                total -= 3.0 if "\x80" <= char < "\xa0" else 1.0
        if (char > "\x7f" or before > "\x7f") and char.isalpha() and before.isalpha():
            # Capitals stand at the start of words, or in words of capitals; a word has letters of one script.
            total -= 1.0 if before.islower() and char.isupper() else 0.06 * (before.isupper() and char.isupper())
            total -= 1.5 * (not writing.words and char.isascii() != before.isascii())
        before = char
    if not count:
        return 0.0
    score = total / count
    if writing.words:
        frequent = frozenset(writing.words.split())
        words = _WORD.findall(text.lower())
        score += min(0.5, 2.0 * sum(word in frequent for word in words) / max(1, len(words))) - 0.25
    return score


def _characters_score(text: str, writing: _EastAsian) -> float:
    total, count = 0.0, 0
    for char in text:
        if char <= "\x7f":
            continue
        count += 1
        if char in writing.common:
            total += 1.0
        elif any(first <= char <= last for first, last in writing.blocks):
            total += 0.6 if writing.has_kana else 0.4
        elif char in _EAST_ASIAN_PUNCTUATION or "\uff01" <= char <= "\uff5e":
            total += 0.6
        elif "\u4e00" <= char <= "\u9fff":
            total += 0.3
        else:
            total -= 0.5
    return total / count if count else 0.0
