"""Computes a map of one user's turns: their vectors projected on the two directions of largest variance (PCA).

Reads `ItemEmbedding`, writes one `TurnMap` row for the owner, which replaces the one before.
"""

from typing import Any

import numpy as np
from django.db import connection
from django.utils import timezone
from numpy.typing import NDArray

from convmemory.core.sql import load_sql
from convmemory.embeddings.spaces import active_space
from convmemory.ops.models import TurnMap

MAX_POINTS = 1_000
DIGITS = 4


def compute_map(*, archive_id: int) -> TurnMap | None:
    """Compute the owner's map in the active space from a sample of `MAX_POINTS` turns; return None without turns."""
    space = active_space()
    with connection.cursor() as cursor:
        parameters = {"owner": archive_id, "space": space.pk, "limit": MAX_POINTS}
        cursor.execute(load_sql("convmemory.ops.observability", "map_sample"), parameters)
        rows = cursor.fetchall()
    if not rows:
        TurnMap.objects.filter(archive_id=archive_id).delete()
        return None
    plane, explained = principal_plane(np.array([row[2] for row in rows], dtype=np.float32))
    places = plane.round(DIGITS).tolist()
    values: dict[str, Any] = {
        "space": space,
        "computed_at": timezone.now(),
        "turns": rows[0][3],
        "explained": explained,
        "points": [[row[0], row[1], *point] for row, point in zip(rows, places, strict=True)],
    }
    return TurnMap.objects.update_or_create(archive_id=archive_id, defaults=values)[0]


def principal_plane(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """Return places (n, 2) from -1 to 1 along the two main directions of `vectors` (n, dim), and their variance share.

    The same vectors give the same places: a direction's sign is chosen so that its largest component is positive.
    """
    centred = vectors - vectors.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    axes = np.zeros((2, vectors.shape[1]), dtype=np.float32)
    axes[: len(directions[:2])] = directions[:2]
    largest = axes[np.arange(2), np.abs(axes).argmax(axis=1)]
    axes *= np.where(largest < 0, -1, 1)[:, None]
    plane = centred @ axes.T
    variance = float((sizes**2).sum())
    reach = float(np.abs(plane).max())
    explained = float((sizes[:2] ** 2).sum()) / variance if variance else 0.0
    return plane / reach if reach else plane, explained


def shown_points(turn_map: TurnMap) -> list[dict[str, Any]]:
    """Return the map's points whose turns still exist, oldest first, with their questions; the caller checked the
    reader.
    """
    places = {(source, item): (x, y) for source, item, x, y in turn_map.points}
    parameters: dict[str, Any] = {
        "owner": turn_map.archive_id,
        "sources": [source for source, _ in places],
        "items": [item for _, item in places],
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.observability", "map_turns"), parameters)
        rows = sorted(cursor.fetchall(), key=lambda row: (row[3], row[0], row[1]))
    return [
        {
            "kind": kind,
            "object": object_id,
            "item": item,
            "heading": heading,
            "at": at,
            "x": places[source, item][0],
            "y": places[source, item][1],
        }
        for source, item, heading, at, kind, object_id in rows
    ]
