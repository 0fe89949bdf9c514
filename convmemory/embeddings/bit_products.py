"""Matrix products of bits with 8-bit integers, on ONNX Runtime.

ONNX Runtime uses the processor's instructions for 8-bit integers, which NumPy does not: a product takes less than half
the time that it takes in floating point. Measurements: docs/adr/0008-late-interaction.md.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.embeddings.graph_session import open_session

_ONNX_OPSET = 17
_ONNX_IR = 10


def bit_products(bits: NDArray[np.uint8], integers: NDArray[np.int8]) -> NDArray[np.int32]:
    """Return the exact product (n, m) of `bits`, 0 or 1, (n, k) with `integers` (k, m)."""
    (products,) = _session().run(None, {"bits": bits, "integers": integers})
    found: NDArray[np.int32] = products
    return found


@lru_cache(maxsize=1)
def _session() -> Any:
    """Return the graph of this product, on one thread: a second one made no search faster."""
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["bits", "integers"], ["products"])],
        "bit_products",
        [
            helper.make_tensor_value_info("bits", TensorProto.UINT8, ["n", "k"]),
            helper.make_tensor_value_info("integers", TensorProto.INT8, ["k", "m"]),
        ],
        [helper.make_tensor_value_info("products", TensorProto.INT32, ["n", "m"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _ONNX_OPSET)], ir_version=_ONNX_IR)
    return open_session(model.SerializeToString(), threads=1)
