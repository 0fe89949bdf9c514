"""The settings of imports, as frozen values."""

from dataclasses import dataclass
from pathlib import Path

from convmemory.core.options import FromSettings


@dataclass(frozen=True, slots=True)
class ImportOptions(FromSettings):
    """Where uploads wait, and the limits of an import."""

    import_folder: Path
    import_memory_mb: int
    import_timeout_s: int
    max_upload_mb: int
    max_kept_uploads_mb: int
    media_root: Path
    data_upload_max_number_files: int


@dataclass(frozen=True, slots=True)
class StorageOptions(FromSettings):
    """How much a person may store; 0 is unlimited."""

    max_stored_mb_per_user: int


@dataclass(frozen=True, slots=True)
class HidingOptions(FromSettings):
    """Whether keys are hidden in new texts."""

    hide_keys: bool
