import json, time, pytest
from datetime import timedelta
from django.db import connection
from django.test import Client
from django.utils import timezone
from tests.factories import make_user
from convmemory.conversations.models import Conversation, Figures
pytestmark = pytest.mark.django_db
def test_speed(capsys):
    owner = make_user("big"); now = timezone.now()
    Conversation.objects.bulk_create([Conversation(owner=owner, title=f"c {n}", agent=f"a{n%7}", project=f"/src/p{n%200}/x", created_at=now-timedelta(hours=n), updated_at=now-timedelta(hours=n), message_count=100, turn_count=20, turns_version=1) for n in range(10_000)], batch_size=2000)
    rows = list(Conversation.objects.filter(owner=owner).order_by("pk"))
    Figures.objects.bulk_create([Figures(owner=owner, conversation=c, turns_version=1, message_count=100, days={str((now-timedelta(hours=n)).date()): [60, 30000], str((now-timedelta(hours=n, days=1)).date()): [40, 20000]}, spoken_by={f"m{n%5}": 50}, tools={f"t{k}": n % 9 + 1 for k in range(n % 6)}) for n, c in enumerate(rows)], batch_size=2000)
    with connection.cursor() as c: c.execute("ANALYZE")
    client = Client(); client.force_login(owner)
    for path in ("/", "/library", "/library?tool=t2", "/library?project=/src/p3", "/statistics", "/settings/data"):
        client.get(path); t = time.perf_counter(); r = client.get(path); took = (time.perf_counter() - t) * 1000
        with capsys.disabled(): print(path, r.status_code, f"{took:.0f} ms", len(r.content))
