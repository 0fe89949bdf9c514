"""Queries as people type and paste them find the one turn that they mean among near misses."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import Filters
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, ThinkingPart
from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from search.query import SearchQuery
from search.searching import search
from tests.factories import exchange, make_conversation, user_says
from tests.support.documents import indexed, upload

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("documents_here")]

# The query, the turn that it means, and turns that nearly say the same.
KINDS: list[tuple[str, str, list[str]]] = [
    # identifiers and paths
    ("parse_invoice_lines", "Call parse_invoice_lines in order.", ["parse_invoice_head is slower."]),
    ("HttpRetryPolicy", "HttpRetryPolicy waits twice as long.", ["HttpCachePolicy keeps a page."]),
    ("maxPoolSize", "Raise maxPoolSize to twenty.", ["minPoolSize may stay at two."]),
    ("src/billing/tax.py", "The rate is wrong in src/billing/tax.py line 9.", ["See src/billing/tips.py for tips."]),
    ("/etc/nginx/sites-enabled", "Link it into /etc/nginx/sites-enabled.", ["It lies in /etc/nginx/conf.d instead."]),
    ("useDebouncedValue hook", "The hook useDebouncedValue fires late.", ["The hook usePreviousValue remembers."]),
    ("std::unique_ptr", "Return a std::unique_ptr from the factory.", ["A std::shared_ptr counts its owners."]),
    ("--no-verify-jwt", "Deploy it with --no-verify-jwt.", ["Deploy it with --import-map."]),
    ("7f3a9c1e", "The bad commit is 7f3a9c1e.", ["The good commit is 7f3b9c1e."]),
    ("v2.14.3", "It broke in v2.14.3.", ["It worked in v2.14.2."]),
    ("CVE-2031-44871", "CVE-2031-44871 is fixed by the update.", ["CVE-2031-44872 does not touch us."]),
    ("invoice_2031_09.xlsx", "The sum in invoice_2031_09.xlsx is off by one.", ["invoice_2031_08.xlsx is right."]),
    # error codes and messages
    ("ORA-01555", "ORA-01555 means that the snapshot is too old.", ["ORA-01653 means that the tablespace is full."]),
    ("error 0x80070057", "0x80070057 is a wrong parameter.", ["0x80070005 is a missing permission."]),
    ("E0308", "rustc says E0308, mismatched types.", ["rustc says E0382, use after move."]),
    ("SQLSTATE 23505", "SQLSTATE 23505 is a duplicate key.", ["SQLSTATE 23503 is a foreign key."]),
    ("exit code 137", "Exit code 137 means out of memory.", ["Exit code 143 means that it was asked to stop."]),
    ("HTTP 429", "HTTP 429 says: slow down.", ["HTTP 503 says: come back."]),
    ("ECONNREFUSED 127.0.0.1:6379", "ECONNREFUSED 127.0.0.1:6379: off.", ["ECONNRESET came once."]),
    ("NullPointerException in OrderMapper", "OrderMapper: NullPointerException.", ["UserMapper throws as well."]),
    # names with signs
    ("C#", "I would write the tray icon in C#.", ["I would write the driver in C.", "The plugin is in C++."]),
    ("C++ templates", "Templates of C++ are instantiated late.", ["Templates of letters lie in the drawer."]),
    (".NET 9", "The service needs .NET 9 on the server.", ["The net weighs nine kilos."]),
    ("F#", "The rules engine is in F# since spring.", ["The fan makes a strange noise since spring."]),
    ("AT&T", "AT&T wants the old router back.", ["The bank wants the old card back."]),
    ("node.js", "The build runs on node.js only.", ["The build runs on Deno only."]),
    # numbers, addresses, amounts
    ("10.20.30.40:8443", "The proxy listens on 10.20.30.40:8443.", ["The proxy listened on 10.20.30.41:8443."]),
    ("fe80::1c2a", "The printer answers at fe80::1c2a.", ["The scanner answers at fe80::1c2b."]),
    ("port 5433", "The second cluster uses port 5433.", ["The first cluster uses port 5432."]),
    ("€1,249.50", "The bicycle costs €1,249.50 with lights.", ["The bicycle costs €1,199.00 without lights."]),
    ("DE89 3704 0044", "Transfer it to DE89 3704 0044.", ["Do not transfer it to DE12 5001 0517."]),
    ("orders@halvorsen.example", "Write to orders@halvorsen.example.", ["Write to help@halvorsen.example."]),
    # accents and scripts
    ("Überweisung", "Die Überweisung ging gestern hinaus.", ["Die Überschwemmung ging gestern zurück."]),
    ("café Zoë", "We meet Zoë at the café.", ["We meet Noa at the bakery."]),
    ("Łódź", "The train to Łódź leaves at nine.", ["The train to Lublin leaves at ten."]),
    ("東京の天気", "明日の東京の天気は雨です。", ["明日の大阪の料理は魚です。"]),
    ("猫", "猫、また庭に来た。", ["犬、また庭に来た。"]),
    ("Москва", "Поезд в Москва опоздал на час.", ["Поезд в Казань пришёл вовремя."]),
    # typing errors
    ("kubernets ingress", "The ingress of Kubernetes drops requests.", ["The gate of the garage drops slowly."]),
    ("sourdoh starter smells", "A sourdough starter that smells is hungry.", ["A diesel starter smells."]),
    ("postgers vacuum", "Postgres runs vacuum by itself.", ["The hoover runs by itself."]),
    # pasted commands and traces
    ("gcc -fno-exceptions undefined reference", "gcc -fno-exceptions: undefined reference.", ["gcc -O2 is fine."]),
    ("docker run -it --rm redis", "Try docker run -it --rm redis for a minute.", ["Try docker ps -a for a list."]),
]  # fmt: skip


def archive_of(owner: User, *turns: str) -> Conversation:
    made = make_conversation(owner, exchange(*((f"Note {number}, please.", said) for number, said in enumerate(turns))))
    index_conversation(conversation_id=made.pk)
    return made


def test_each_kind_of_query_finds_its_turn_first_among_near_misses(owner: User) -> None:
    archive_of(owner, *(said for _, _, misses in KINDS for said in misses))
    right = archive_of(owner, *(said for _, said, _ in KINDS))
    missed = {}
    for number, (query, _, _) in enumerate(KINDS):
        hit, *_ = [
            *search(caller=Caller.of(owner), query=SearchQuery(text=query, has_operators=True, limit=1)).hits,
            None,
        ]
        if hit is None or (hit.object_id, hit.number) != (right.pk, number):
            missed[query] = hit and hit.passage
    assert not missed


SIGNS = {
    "猫": "うちの黒猫が庭で寝ていた。",  # in the middle of a run
    "犬": "隣の家の大きな犬",  # at its end
    "🚀": "Shipped it🚀 at noon.",
    "👩🏽‍🚒": "My sister is a 👩🏽‍🚒 now.",
    "한": "대한민국",
}


def test_single_sign_lists_turns_that_contain_it_newest_first(owner: User) -> None:
    archive_of(owner, "うちの黒鳥が庭で寝ていた。", "Shipped it at noon.", "A 🚁 came.")
    right = archive_of(owner, *SIGNS.values())
    for number, (sign, said) in enumerate(SIGNS.items()):
        for mode in ("hybrid", "full_text"):
            found = search(caller=Caller.of(owner), query=SearchQuery(text=f" {sign}", mode=mode))
            (hit,) = found.hits
            assert (hit.object_id, hit.number, hit.passage) == (right.pk, number, said)
            assert [hit.passage[slice(*mark)] for mark in hit.marks] == [sign]
            assert found.answered
            assert found.notes == (f"Everything with {sign}, the newest first.",)


def test_single_sign_is_found_in_scope_and_in_documents(owner: User) -> None:
    thought = MessageDraft(role="assistant", parts=(ThinkingPart("Is it 🦔?"), TextPart("Done.")))
    index_conversation(conversation_id=make_conversation(owner, [user_says("Go on, please."), thought]).pk)
    assert search(caller=Caller.of(owner), query=SearchQuery(text="🦔", scope=frozenset({"thinking"}))).total == 1
    assert not [
        hit for hit in search(caller=Caller.of(owner), query=SearchQuery(text="🦔")).hits if "🦔" in hit.passage
    ]
    indexed(upload(owner, "# Tiere\n\nDer 🦔 schläft."))
    (hit,) = search(caller=Caller.of(owner), query=SearchQuery(text="🦔")).hits
    assert hit.kind == "document"


def test_sign_in_no_text_is_searched_by_meaning(owner: User) -> None:
    archive_of(owner, "The cat sleeps.")
    assert search(caller=Caller.of(owner), query=SearchQuery(text="🐈")).notes != (
        "Everything with 🐈, the newest first.",
    )


TRACE = """Traceback (most recent call last):
  File "/opt/kiln/firing/temperature_curves.py", line 88, in ramp_thermocouple
    glaze = self.porcelain.vitrify(bisque, celadon_recipe=self.recipe)
  File "/opt/kiln/firing/glazes/celadon.py", line 214, in vitrify
    return stoneware_body.absorb(feldspar, silica_ratio, kaolin_share)
  File "/opt/kiln/firing/glazes/feldspars.py", line 31, in absorb
    crackle = crazing_model.predict(thermal_expansion, cooling_minutes)
  File "/opt/kiln/firing/models/crazing.py", line 402, in predict
    oxidation = reduction_atmosphere.sample(propane_burner, damper_angle)
  File "/opt/kiln/firing/models/atmosphere.py", line 77, in sample
    pyrometer.read(cone_number, orton_table)
  File "/opt/kiln/firing/sensors/pyrometers.py", line 19, in read
    return modbus_client.holding_registers(unit_address)
kiln.errors.SensorGone: slip_trailer_queue is drained"""


def test_words_that_no_turn_has_do_not_outweigh_rare_ones_of_pasted_trace(owner: User) -> None:
    archive_of(
        owner,
        "A pot cracks if the oven cools too fast after the enamel has melted.",
        "Potters burn gas to take the oxygen away, which turns copper red.",
        "Clay shrinks when it dries, and again in the fire.",
        "The thermometer in the oven is broken, so the plates came out too hard.",
    )
    right = archive_of(owner, "It was a full disk.", "Restart the worker when slip_trailer_queue runs dry.")
    found = search(caller=Caller.of(owner), query=SearchQuery(text=TRACE))
    assert (found.hits[0].object_id, found.hits[0].number) == (right.pk, 1)
    assert "rarest words" in found.notes[0]


def test_pasted_trace_is_not_answered_by_one_word_of_it(owner: User, settings: Any) -> None:
    settings.SEARCH_MIN_RELEVANCE = 0.37
    archive_of(owner, "The sample of wool is soft.", "Nobody wears a hat.", "Two eggs, then flour.", "It rains again.")
    found = search(caller=Caller.of(owner), query=SearchQuery(text=TRACE))
    assert found.answered is None
    assert {hit.relevance for hit in found.hits} == {None}


GARDEN = [
    ("When do I sow carrots in the vegetable bed?", "In April, in loose soil, a finger deep."),
    ("And when do I plant out the bean seedlings?", "Not before the last frost in May."),
    ("How do I prune the roses and the hedge?", "With sharp shears, in early spring."),
    ("Is compost enough for the flower beds?", "Yes, two fingers of it around the plants."),
]
POKER = [("Does a flush beat a straight?", "It does."), ("And four of a kind?", "Beats both.")]
TAXES = [
    ("Which form of the tax return is for rent?", "Annex V, with the receipts."),
    ("Which services around the house can I deduct?", "Cleaning, child care, gardening, repairs; keep the bills."),
    ("By when must the tax office have it?", "By the end of July."),
    ("Who of us signs it?", "Both of you, if you are assessed together."),
    ("And what is the fine for being late?", "A quarter of a percent a month."),
]


def test_conversations_about_topic_are_listed_once_by_all_their_turns(owner: User) -> None:
    garden, taxes, poker = (make_conversation(owner, exchange(*pairs)) for pairs in (GARDEN, TAXES, POKER))
    for made in (garden, taxes, poker):
        index_conversation(conversation_id=made.pk)
    assert search(caller=Caller.of(owner), query=SearchQuery(text="gardening")).hits[0].object_id == taxes.pk
    indexed(upload(owner, "# Gardening\n\nGardening is good for the back."))
    found = search(caller=Caller.of(owner), query=SearchQuery(text="Which conversations were about gardening?"))
    assert [(hit.kind, hit.object_id) for hit in found.hits] == [
        ("conversation", garden.pk),
        ("conversation", taxes.pk),
        ("conversation", poker.pk),
    ]
    assert found.hits[1].number == 1
    assert found.total == 3
    assert found.notes == ("Conversations about “gardening”, one turn of each.",)
    within = SearchQuery(text="conversations about gardening", filters=Filters(conversation_id=garden.pk))
    assert len(search(caller=Caller.of(owner), query=within).hits) == 4
