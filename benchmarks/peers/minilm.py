"""all-MiniLM-L6-v2 for the adapters: the graph that convmemory runs, with only ONNX Runtime and tokenizers.

Each system gets the vectors of the same weights, computed in its own process by the same number of threads.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from benchmarks.peers.adapter import Adapter

# all-MiniLM-L6-v2 returns vectors of this length.
DIMENSIONS = 384
MAX_TOKENS = 256  # special tokens included; the rest of a longer text is cut off
BATCH_SIZE = 32

Vectors = NDArray[np.float32]


class MiniLM:
    """Embeds sentences as vectors (n, 384), float32, of unit length."""

    def __init__(self, graph: Path, tokenizer: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(tokenizer))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.enable_cpu_mem_arena = False
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors; texts of similar length share a batch, so that there is little padding."""
        sequences = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        order = np.argsort([len(ids) for ids in sequences], kind="stable")
        vectors = np.empty((len(texts), DIMENSIONS), np.float32)
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            vectors[rows] = self._forward([sequences[row] for row in rows])
        return vectors

    def _forward(self, sequences: Sequence[list[int]]) -> Vectors:
        longest = max(map(len, sequences))
        ids = np.zeros((len(sequences), longest), np.int32)
        mask = np.zeros_like(ids)
        for row, sequence in enumerate(sequences):
            ids[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
        (states,) = self.session.run(["hidden"], {"input_ids": ids, "mask": mask})
        sums = (states * mask[:, :, None]).sum(axis=1)
        unit: Vectors = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return unit


class EmbeddingAdapter(Adapter):
    """A system that gets its vectors from the model."""

    def __init__(self, options: Namespace) -> None:
        super().__init__(options)
        self.model = MiniLM(options.graph, options.tokenizer)

    def start(self) -> None:
        self.model.encode(["warm up"])
