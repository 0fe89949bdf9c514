"""Moves an installation from the exact form of the included model to the 8-bit one, by the workers.

The sweep calls this every minute. Where the settings name the 8-bit form, its space is built archive by archive while
the old one is searched, as by `manage.py reembed`; what a killed worker has stored stays. It ends if an administrator
gives the new space up or goes back to the old one.
"""

import logging
from functools import partial
from itertools import chain

from convmemory.core.postgres.archives import for_all_archives
from convmemory.embeddings.model_folder import EXACT_MODEL
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.options import EmbeddingOptions
from convmemory.embeddings.spaces import building_space, is_moved_by_workers, space_key, space_of, start_building
from search.indexing.building import archives_to_build
from search.indexing.switching import NotBuilt, switch_to
from search.tasks import enqueue_build

logger = logging.getLogger(__name__)


def move_to_int8() -> int:
    """Build the space of the settings' models if it differs from the active one by the form of the included model.

    Return the number of archives that are not in it yet; without any, it becomes the active one. Idempotent.

    Raises: EmbedderUnavailable.
    """
    active = EmbeddingSpace.objects.filter(is_active=True).first()
    if active is None or EXACT_MODEL not in (active.model, active.token_model):
        return 0
    options = EmbeddingOptions.from_settings()
    if not is_moved_by_workers(active, space_key(options)):
        return 0
    space = space_of(options)
    if not space.is_building:
        if building_space():  # an administrator is changing over to another one
            return 0
        start_building(space)
        logger.info("Workers build %s; %s is searched until it is complete", space, active)
    archives = sorted(chain.from_iterable(for_all_archives(partial(archives_to_build, space))))
    for archive_id in archives:
        enqueue_build(archive_id=archive_id)
    if not archives:
        try:
            switch_to(space)
        except NotBuilt:  # something was indexed meanwhile: the next sweep tries again
            return 0
        logger.info("Searches use %s", space)
    return len(archives)
