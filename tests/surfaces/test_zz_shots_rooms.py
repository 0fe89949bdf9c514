import pytest
from tests.surfaces.test_browser_rooms import archive, visit  # noqa: F401
from convmemory.conversations import curating
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

def test_shots(visit, archive):
    curating.set_pin(owner=archive.owner, conversation_id=archive.short[0].pk, pinned=True)
    curating.set_star(owner=archive.owner, conversation_id=archive.long.pk, starred=True)
    curating.add_tag(owner=archive.owner, conversation_ids=[archive.long.pk], name="bake")
    paths = {"home": "/", "library": "/library", "stat": "/statistics", "conv": f"/conversations/{archive.long.pk}?turn=2", "connect": "/settings/connect", "appearance": "/settings/appearance", "data": "/settings/data", "agent": "/agents/new", "outline": f"/conversations/{archive.long.pk}/outline"}
    for width in (1440, 768, 390):
        for theme in ("light", "dark"):
            if width == 768 and theme == "dark": continue
            def steps(page):
                page.emulate_media(color_scheme=theme)
                for name, path in paths.items():
                    page.goto(path)
                    if name == "conv":
                        page.locator(".run summary").first.click()
                        for s in page.locator(".step summary").all(): s.click()
                        if width == 1440: page.keyboard.press("f"); page.wait_for_timeout(600)
                    page.wait_for_timeout(150)
                    page.screenshot(path=f"/tmp/rooms/shots/{name}-{width}-{theme}.png")
            visit(steps, width=width, height=900 if width > 400 else 844)
