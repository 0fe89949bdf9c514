"""The register of advisory locks: every number that this program locks in PostgreSQL, each used for one purpose."""

from enum import IntEnum, unique


@unique
class AdvisoryLock(IntEnum):
    """The first key of an advisory lock; the second is a source, unless said otherwise."""

    INDEXING = 7_201  # one worker at a time indexes a source in the active space
    BUILDING = 7_202  # the same for a space that is built while another one is active
    WRITING = 7_203  # shared by writers of a source, exclusive for its deletion
    CLAIM = 7_204  # one worker at a time chooses a task; without a second key
    COUNTED_ACT = 7_206  # one request at a time counts a repeated act in the audit log; the second key is its object
    RECORDING = 7_298  # one exchange of an owner at a time is recorded by the proxy; the second key is the owner
    TEST_TEMPLATE = 7_299  # one test run makes the template database while others wait; without a second key
    VECTORS = 1_000_000  # plus the number of a space: one transaction at a time replaces a source's vectors in it
