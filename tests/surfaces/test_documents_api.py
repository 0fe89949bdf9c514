"""Documents over HTTP: upload, status, search of sections and of both, attachments, and foreign ones not found."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from convmemory.accounts import async_authentication
from convmemory.accounts.keys import create_key
from convmemory.accounts.spaces import create_space
from convmemory.documents import api, processing
from convmemory.documents.models import Document
from convmemory.documents.viewing import outline_of
from search.adapters.conversations import index_conversation
from search.indexing.active import index_source
from search.models import Source
from tests.factories import add_member, exchange, make_conversation, make_user
from tests.support.documents import GUIDE, convert_here, indexed, upload

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path) -> None:
    async def in_this_thread(function: Any, *args: Any, **values: Any) -> Any:
        return await sync_to_async(function)(*args, **values)

    settings.MEDIA_ROOT = tmp_path / "media"
    monkeypatch.setattr(processing, "run_child", convert_here)
    monkeypatch.setattr(api, "in_thread", in_this_thread)
    monkeypatch.setattr(async_authentication, "first_in_thread", in_this_thread)


@pytest.fixture
def owner() -> User:
    return make_user("ada")


def program_of(user: User) -> Client:
    return Client(headers={"Authorization": f"Bearer {create_key(person=user)}"})


@pytest.fixture
def client(owner: User) -> Client:
    return program_of(owner)


def send(client: Client, content: str, name: str = "guide.md", **form: Any) -> Any:
    return client.post("/api/v1/documents", {"file": SimpleUploadedFile(name, content.encode()), **form})


def find(
    client: Client, path: str = "/documents/search", query: str = "how much sun do tomatoes need?", **more: Any
) -> Any:
    answer = client.get(f"/api/v1{path}", {"query": query, **more})
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_upload_is_read_found_and_deleted(client: Client) -> None:
    answer = send(client, GUIDE)
    assert (answer.status_code, answer.json()["status"]) == (202, "uploaded"), answer.content
    place = answer.headers["Location"]
    document = Document.objects.get(pk=answer.json()["id"])
    assert send(client, GUIDE).status_code == 200
    indexed(document)
    shown = client.get(place).json()
    assert (shown["status"], shown["title"], shown["format"], shown["url"]) == (
        "ready", "Garden guide", "markdown", f"/documents/{document.pk}",
    )  # fmt: skip
    [hit] = find(client)["results"]
    assert GUIDE[hit["passage_start"] : hit["passage_end"]] == hit["passage"]
    assert "sun" in hit["passage"]
    assert (hit["start"], hit["end"], hit["page"], hit["section"]) == (0, len(GUIDE), None, 0)
    assert hit["url"] == f"/documents/{document.pk}?section=0"
    assert client.get("/api/v1/documents").json()["results"][0]["id"] == document.pk
    assert client.delete(place).status_code == 204
    assert client.get(place).status_code == 404
    assert find(client)["results"] == []


def test_refused_upload_names_reason(client: Client, settings: Settings) -> None:
    assert client.post("/api/v1/documents", {}).status_code == 422
    settings.MAX_DOCUMENT_MB = 0
    refused = send(client, GUIDE)
    assert (refused.status_code, "MAX_DOCUMENT_MB" in refused.json()["detail"]) == (413, True)
    settings.MAX_DOCUMENT_MB = 1
    assert send(client, GUIDE, replaces="x").status_code == 422
    assert send(client, GUIDE, replaces="9").status_code == 404
    assert "no form field 'wait' here" in send(client, GUIDE, wait="5").json()["detail"]


def test_new_version_keeps_number(client: Client, owner: User) -> None:
    document = indexed(upload(owner, GUIDE))
    answer = send(client, GUIDE.replace("six hours", "eight hours"), replaces=document.pk)
    assert (answer.status_code, answer.json()["id"], answer.json()["status"]) == (202, document.pk, "uploaded")
    assert "six hours" in find(client)["results"][0]["passage"]
    indexed(document)
    assert "eight hours" in find(client)["results"][0]["passage"]


@pytest.mark.parametrize(
    ("role", "writes_spaces", "status"),
    [("contributor", True, 202), ("contributor", False, 403), ("reader", True, 403), ("", True, 404)],
)
def test_space_takes_documents_as_role_and_key_allow(owner: User, role: str, writes_spaces: bool, status: int) -> None:
    mia = make_user("mia")
    space = create_space(person=mia, name="Boat house")
    if role:
        add_member(person=mia, space_id=space.pk, username="ada", role=role)
    key = create_key(person=owner, space_ids=None, writes_spaces=writes_spaces)
    program = Client(headers={"Authorization": f"Bearer {key}"})
    file = SimpleUploadedFile("guide.md", GUIDE.encode())
    answer = program.post(f"/api/v1/documents?space={space.pk}", {"file": file})
    assert answer.status_code == status, answer.content
    assert [row.archive_id for row in Document.objects.all()] == ([space.pk] if status == 202 else [])
    if status == 202:
        assert program.get(answer.headers["Location"]).json()["id"] == answer.json()["id"]


def test_turns_and_sections_are_found_together(client: Client, owner: User) -> None:
    document = indexed(upload(owner, GUIDE))
    chat = make_conversation(owner, exchange(("how much sun do tomatoes need?", "Tomatoes need a lot of sun.")))
    index_conversation(conversation_id=chat.pk)
    kinds = {hit["kind"]: hit for hit in find(client, "/search")["results"]}
    assert kinds["turn"]["conversation_id"] == chat.pk
    assert kinds["section"]["document_id"] == document.pk
    assert {hit["kind"] for hit in find(client, "/search", kind="turn")["results"]} == {"turn"}
    assert {hit["kind"] for hit in find(client, "/search", kind="section")["results"]} == {"section"}
    assert client.get("/api/v1/search", {"query": "sun", "kind": "page"}).status_code == 422


def test_documents_do_not_change_conversation_search(client: Client, owner: User) -> None:
    for number in range(6):
        pairs = (f"how is plant {number} doing in the sun?", f"Plant {number} needs {number} hours of sun and water.")
        index_conversation(conversation_id=make_conversation(owner, exchange(pairs)).pk)
    before = {mode: find(client, "/conversations/search", mode=mode) for mode in ("hybrid", "semantic", "full_text")}
    indexed(upload(owner, GUIDE * 9))
    indexed(upload(owner, "# Garten\n\nDie Pflanze will in die Sonne, und sie soll nicht hungern.\n", "garten.md"))
    after = {mode: find(client, "/conversations/search", mode=mode) for mode in before}
    assert before == after


@pytest.mark.slow
def test_long_page_ends_with_further_passages_of_its_best_sections(client: Client, owner: User) -> None:
    parts = [
        f"## Bed {number}\n\n"
        + "".join(f"Bed {number} has row {row} of beans in the sun, as was planned. " for row in range(12))
        for number in range(30)
    ]
    indexed(upload(owner, "\n\n".join(parts)))
    page = find(client, query="which beds have beans in the sun?", limit=20)
    places = [(hit["section"], hit["passage_start"], hit["passage_end"]) for hit in page["results"]]
    first, further = places[:10], places[10:]
    assert len({section for section, _, _ in first}) == 10
    assert {section for section, _, _ in further} <= {section for section, _, _ in first}
    assert len(further) == 10
    room = [end - start for _, start, end in first]
    assert max(room[3:]) <= 250
    covered = sorted((start, end) for _, start, end in places)
    assert all(before[1] <= after[0] for before, after in pairwise(covered))
    following = find(client, query="which beds have beans in the sun?", limit=20, cursor=page["next_cursor"])
    assert not {section for section, _, _ in first} & {hit["section"] for hit in following["results"]}


@pytest.mark.slow
def test_long_page_is_full_where_sections_have_one_passage_each(client: Client, owner: User) -> None:
    for number in range(30):
        indexed(upload(owner, f"Bean number {number} grows in the sun.", f"{number}.txt"))
    page = find(client, query="which beans grow in the sun?", limit=20)
    assert len({hit["document_id"] for hit in page["results"]}) == 20
    following = find(client, query="which beans grow in the sun?", limit=20, cursor=page["next_cursor"])
    assert len({hit["document_id"] for hit in page["results"] + following["results"]}) == 30


# Documents of many short parts: their headings, what stands under each, and a query for it.
FAQ = [
    ("How often do I water ferns?", "Every second day, at dawn.", "watering ferns at dawn"),
    ("Do ferns need sun?", "Only filtered light through leaves.", "how much light for ferns"),
    ("Which soil is right?", "Loose peat with some bark in it.", "peat and bark"),
    ("Can ferns stand outside?", "From May on, out of the wind.", "ferns in the garden, wind"),
    ("Why do the tips turn brown?", "The air is too dry beside a radiator.", "brown tips near the radiator"),
    ("How do I divide a plant?", "Cut the rhizome with a clean knife.", "cutting the rhizome"),
    ("What do I feed them?", "Diluted seaweed, once a month.", "seaweed as feed"),
    ("Are ferns poisonous to cats?", "Boston fern is harmless, asparagus fern is not.", "are ferns safe for my cat"),
    ("When do spores ripen?", "In late summer, when they turn rust red.", "rust red spores"),
    ("How do I sow spores?", "On damp brick under a glass bell.", "sowing on brick under glass"),
    ("Do snails eat them?", "Rarely, they prefer hostas.", "snails and hostas"),
    ("How large do they grow?", "A king fern spans two metres.", "king fern of two metres"),
    ("Must I cut old fronds?", "In March, before the new ones unroll.", "removing old fronds in March"),
    ("Where do I order?", "By post card, to the nursery in Alkmaar.", "nursery in Alkmaar"),
]
CHANGES = [
    ("3.9.0", "The calendar shows week numbers.", "week numbers in the calendar"),
    ("3.8.2", "Printing no longer crops the margin.", "margin cropped when printing"),
    ("3.8.1", "Sign-in works behind a proxy again.", "sign-in behind a proxy"),
    ("3.8.0", "Notes can be exported as Markdown.", "export of notes to Markdown"),
    ("3.7.4", "A crash on empty folders is fixed.", "crash with an empty folder"),
    ("3.7.0", "Dark mode follows the system.", "dark mode of the system"),
    ("3.6.3", "Attachments over 2 GB upload in parts.", "uploading huge attachments"),
    ("3.6.0", "The search understands German umlauts.", "umlauts in search"),
    ("3.5.1", "The tray icon is sharp on Retina displays.", "blurred tray icon on Retina"),
    ("3.5.0", "Tags have colours.", "colours of tags"),
    ("3.4.2", "Time zones with half hours are right.", "half-hour time zones"),
    ("3.4.0", "Backups are encrypted with a passphrase.", "passphrase of backups"),
    ("3.3.0", "Windows 7 is no longer supported.", "support for Windows 7"),
]
GLOSSARY = [
    ("Ballast", "Weight low in the hull that keeps a boat upright.", "what keeps a boat upright"),
    ("Boom", "The spar along the foot of the mainsail.", "spar at the foot of the mainsail"),
    ("Cleat", "A fitting to which a rope is made fast.", "fitting for making a rope fast"),
    ("Draught", "The depth of water that a boat needs.", "how deep must the water be"),
    ("Fender", "A cushion between the hull and the quay.", "cushion at the quay"),
    ("Gybe", "To turn so that the stern passes through the wind.", "stern passes through the wind"),
    ("Halyard", "The rope that hoists a sail.", "rope for hoisting a sail"),
    ("Jib", "The triangular sail before the mast.", "triangular sail before the mast"),
    ("Keel", "The fin under the hull that prevents drifting.", "fin that prevents drifting"),
    ("Leeward", "The side away from the wind.", "side turned away from the wind"),
    ("Painter", "The line at the bow of a dinghy.", "line at a dinghy's bow"),
    ("Reef", "To make a sail smaller in strong wind.", "making a sail smaller"),
    ("Transom", "The flat board that closes the stern.", "flat board at the stern"),
]


@pytest.mark.slow
def test_hits_name_heading_above_their_passage(client: Client, owner: User) -> None:
    parts = {"Ferns": FAQ, "Releases": CHANGES, "Words of sailors": GLOSSARY}
    for title, rows in parts.items():
        text = f"# {title}\n\n" + "\n\n".join(f"## {heading}\n\n{said}" for heading, said, _ in rows)
        document = indexed(upload(owner, text, f"{title}.md"))
        assert document.section_count < len(rows)  # small parts are joined
        assert [entry.title for entry in outline_of(document)] == [title, *(heading for heading, _, _ in rows)]
    asked = {query: [title, heading] for title, rows in parts.items() for heading, _, query in rows}
    named = {query: find(client, query=query, limit=1)["results"][0]["heading_path"] for query in asked}
    assert len(asked) == 40
    assert named == asked


def test_only_attached_documents_are_searched_for_conversation(client: Client, owner: User) -> None:
    guide, other = indexed(upload(owner, GUIDE)), indexed(upload(owner, "Tomatoes are red in the sun.", "other.txt"))
    chat = make_conversation(owner, exchange(("hello", "Hi.")))
    assert find(client, conversation_id=chat.pk)["results"] == []
    place = f"/api/v1/conversations/{chat.pk}/documents"
    attached = client.post(place, {"document_ids": [guide.pk]}, content_type="application/json")
    assert [row["id"] for row in attached.json()["results"]] == [guide.pk]
    assert {hit["document_id"] for hit in find(client, conversation_id=chat.pk)["results"]} == {guide.pk}
    assert {hit["document_id"] for hit in find(client)["results"]} == {guide.pk, other.pk}
    assert {hit["document_id"] for hit in find(client, document_id=other.pk)["results"]} == {other.pk}
    assert find(client, document_id=other.pk, conversation_id=chat.pk)["results"] == []
    assert client.delete(f"{place}/{guide.pk}").status_code == 204
    assert client.get(place).json() == {"results": []}


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "full_text"])
def test_every_mode_finds_sections(client: Client, owner: User, mode: str) -> None:
    indexed(upload(owner, GUIDE))
    found = find(client, mode=mode)
    assert len(found["results"]) == 1
    assert found["notes"] == []
    assert bool(found["results"][0]["similarity"]) is (mode != "full_text")


def test_document_search_uses_words_while_rag_is_off(client: Client, owner: User, settings: Settings) -> None:
    indexed(upload(owner, GUIDE))
    settings.RAG_ENABLED = False
    found = find(client)
    assert found["results"][0]["similarity"] is None
    assert "RAG_ENABLED" in found["notes"][0]


def test_document_search_uses_words_while_nothing_is_embedded(client: Client, owner: User, settings: Settings) -> None:
    settings.RAG_ENABLED = False
    document = indexed(upload(owner, GUIDE))
    settings.RAG_ENABLED = True
    found = find(client)
    assert len(found["results"]) == 1
    assert found["notes"] == ["Searched by words only: no document is indexed by meaning yet."]
    source = Source.objects.get(object_id=document.pk)
    source.index.all().delete()
    index_source(archive_id=source.archive_id, source_id=source.pk)
    assert find(client)["notes"] == []


def test_foreign_document_gets_404(owner: User) -> None:
    document = indexed(upload(owner, GUIDE))
    stranger = make_user()
    client = program_of(stranger)
    chat = make_conversation(stranger, exchange(("hello", "Hi.")))
    place = f"/api/v1/documents/{document.pk}"
    assert (client.get(place).status_code, client.delete(place).status_code) == (404, 404)
    assert find(client)["results"] == []
    foreign: dict[str, Any] = {"query": "sun", "document_id": document.pk}
    assert client.get("/api/v1/documents/search", foreign).status_code == 404
    attached = client.post(
        f"/api/v1/conversations/{chat.pk}/documents", {"document_ids": [document.pk]}, content_type="application/json"
    )
    assert attached.status_code == 404
    assert Client().get(place).status_code == 401
