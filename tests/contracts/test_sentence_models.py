"""Models of the shapes that people download give the vectors of their definition, whatever their graphs want."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from convmemory.core.errors import EmbedderUnavailable
from convmemory.embeddings.embedder import TokenEmbedder
from convmemory.embeddings.local import LocalEmbedder, LocalSentenceEmbedder, open_local
from convmemory.embeddings.options import EmbeddingOptions
from tests.support.onnx_models import (
    MAX_SEQUENCE,
    SHAPES,
    WIDTH,
    Shape,
    reference_states,
    reference_vector,
    whole_tokenizer,
    write_model,
)

TEXTS = ["the cat sat on the mat.", "mats", "", "why?", "cat " * 40, "a b c d e f g, the cat", ":c: mat"]


def opened(folder: Path, **options: int) -> LocalSentenceEmbedder:
    settings = EmbeddingOptions.from_settings()
    return open_local(
        replace(settings, model_path=folder, cache_folder=folder.parent / "cache", threads=1, **options)  # type: ignore[arg-type]
    )


def references(folder: Path, shape: Shape, texts: Sequence[str], prompt: str) -> np.ndarray:
    return np.stack([reference_vector(folder, shape, text, prompt=prompt) for text in texts])


@pytest.mark.parametrize("name", SHAPES)
def test_passages_and_questions_are_those_of_definition(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    folder = write_model(tmp_path / "model", shape)
    embedder = opened(folder)
    prompts = shape.prompts
    np.testing.assert_allclose(
        embedder.embed_passages(TEXTS), references(folder, shape, TEXTS, prompts.get("document", "")), atol=1e-4
    )
    questions = np.stack([embedder.embed_query(text) for text in TEXTS])
    np.testing.assert_allclose(questions, references(folder, shape, TEXTS, prompts.get("query", "")), atol=1e-4)


def test_prompts_are_chosen_as_sentence_transformers_chooses(tmp_path: Path) -> None:
    shape = replace(SHAPES["prompts, Dense"], prompts={"passage": "the mat: ", "other": "no"})
    folder = write_model(tmp_path / "model", shape)
    embedder = opened(folder)
    np.testing.assert_allclose(embedder.embed_passages(TEXTS), references(folder, shape, TEXTS, "the mat: "), atol=1e-4)
    np.testing.assert_allclose(embedder.embed_query("cat"), reference_vector(folder, shape, "cat"), atol=1e-4)


def test_mean_may_leave_prompt_out(tmp_path: Path) -> None:
    shape = replace(SHAPES["prompts, Dense"], pools_prompt=False)
    folder = write_model(tmp_path / "model", shape)
    texts = ["the cat sat on the mat.", "why?"]
    np.testing.assert_allclose(
        opened(folder).embed_passages(texts), references(folder, shape, texts, "a mat: "), atol=1e-4
    )


@pytest.mark.parametrize("name", ["XLM-R", "prompts, Dense"])
def test_cut_vectors_are_first_dimensions_scaled_again(name: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", SHAPES[name])
    whole, cut = opened(folder), opened(folder, dimensions=16)
    assert cut.card.dimensions == 16
    first = whole.embed_passages(TEXTS)[:, :16]
    np.testing.assert_allclose(
        cut.embed_passages(TEXTS), first / np.linalg.norm(first, axis=1, keepdims=True), atol=1e-6
    )
    assert isinstance(cut, LocalEmbedder)
    assert cut.embed_query_tokens("the cat").token_vectors.shape[1] == 16
    with pytest.raises(EmbedderUnavailable, match=rf"has {whole.card.dimensions} dimensions, not 4000"):
        opened(folder, dimensions=4000)


@pytest.mark.parametrize("name", ["BERT, mean", "XLM-R", "decoder, last token"])
def test_token_vectors_are_states_of_texts_own_tokens(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    embedder = opened(write_model(tmp_path / "model", shape))
    assert isinstance(embedder, TokenEmbedder)
    text = "the cat sat"
    encoding = whole_tokenizer(shape).encode(text)
    own = [not special for special in encoding.special_tokens_mask]
    states = reference_states(encoding.ids, shape)[own]
    [found, _] = embedder.embed_passages_with_tokens([text, "the cat sat on the mat, a, b, c"])
    np.testing.assert_allclose(found.token_vectors, states / np.linalg.norm(states, axis=1, keepdims=True), atol=1e-4)


def test_prompt_takes_tokens_but_gives_none(tmp_path: Path) -> None:
    embedder = opened(write_model(tmp_path / "model", SHAPES["decoder, last token"]))
    assert isinstance(embedder, LocalEmbedder)
    text = "cats: mat"
    assert "".join(text[start:end] for start, end in embedder.tokenize_query(text).spans) == text
    found = embedder.embed_query_tokens(text)
    assert len(found.token_ids) == len(embedder.tokenize_query(text).ids)
    prompt_tokens = embedder.model.reader.prompt_tokens("find it:")
    assert embedder.card.max_tokens == MAX_SEQUENCE - 1 - prompt_tokens


def test_graph_may_give_vector_ready_made(tmp_path: Path) -> None:
    shape = replace(SHAPES["CLS, normalised"], outputs=("last_hidden_state", "sentence_embedding"))
    folder = write_model(tmp_path / "model", shape)
    (folder / "modules.json").unlink()
    (folder / "1_Pooling" / "config.json").unlink()  # nothing but the graph says how it pools
    embedder = opened(folder)
    assert embedder.card.has_token_vectors
    np.testing.assert_allclose(embedder.embed_passages(TEXTS), references(folder, shape, TEXTS, ""), atol=1e-4)


def test_graph_without_states_gives_vectors_of_texts_alone(tmp_path: Path) -> None:
    shape = replace(SHAPES["CLS, normalised"], outputs=("sentence_embedding",))
    folder = write_model(tmp_path / "model", shape)
    embedder = opened(folder)
    assert not embedder.card.has_token_vectors
    assert not isinstance(embedder, TokenEmbedder)
    np.testing.assert_allclose(embedder.embed_passages(TEXTS), references(folder, shape, TEXTS, ""), atol=1e-4)


def test_graph_of_batch_size_one_gets_one_text_at_time(tmp_path: Path) -> None:
    shape = replace(SHAPES["BERT, mean"], batch=1)
    folder = write_model(tmp_path / "model", shape)
    np.testing.assert_allclose(opened(folder).embed_passages(TEXTS), references(folder, shape, TEXTS, ""), atol=1e-4)


def test_stored_card_saves_loading_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_model(tmp_path / "model", SHAPES["prompts, Dense"])
    card = opened(folder).card
    assert (card.dimensions, card.has_token_vectors) == (40, True)
    monkeypatch.setattr("convmemory.embeddings.sentence_model.open_session", lambda *_, **__: pytest.fail("loaded"))
    assert opened(folder).card == card


def test_another_prompt_or_pooling_is_another_model(tmp_path: Path) -> None:
    names, same = set(), SHAPES["BERT, mean"]
    for number, shape in enumerate(
        (same, replace(same, prompts={"query": "why? "}), replace(same, pooling="cls_token"))
    ):
        names.add(opened(write_model(tmp_path / str(number) / "model", shape)).card.model)
    assert len(names) == 3
    assert all(name.startswith("model@") for name in names)


def test_path_may_name_one_graph_of_several(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", SHAPES["CLS, normalised"])
    other = write_model(tmp_path / "other", SHAPES["CLS, normalised"], seed=9)
    (other / "onnx" / "model_quantized.onnx").rename(folder / "onnx" / "model.onnx")
    exact, quantized = opened(folder), opened(folder / "onnx" / "model_quantized.onnx")
    assert exact.card.model != quantized.card.model
    assert quantized.card.model.startswith("model@")
    np.testing.assert_allclose(
        quantized.embed_passages(TEXTS), references(folder, SHAPES["CLS, normalised"], TEXTS, ""), atol=1e-4
    )
    assert exact.model.files.weights.name == "model.onnx"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": ("input_ids", "attention_mask", "pixel_values")}, "wants the input pixel_values"),
        ({"outputs": ("logits",)}, "gives logits, neither the states of the tokens"),
        ({"batch": 4}, "has the fixed shape"),
    ],
)
def test_graph_that_is_no_sentence_model_is_refused_with_reason(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    folder = write_model(tmp_path / "model", replace(SHAPES["BERT, mean"], **changes))  # type: ignore[arg-type]
    with pytest.raises(EmbedderUnavailable, match=message):
        opened(folder)


def test_missing_or_broken_model_file_is_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", SHAPES["BERT, mean"])
    pooling = folder / "1_Pooling" / "config.json"
    kept = pooling.read_text()
    pooling.unlink()
    with pytest.raises(EmbedderUnavailable, match="do not say how the tokens' states become one vector"):
        opened(folder)
    pooling.write_text(kept)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(EmbedderUnavailable, match=r"tokenizer\.json is missing"):
        opened(folder)
    (folder / "model.onnx").write_bytes(b"no graph")
    write_model(tmp_path / "other" / "model", SHAPES["BERT, mean"]).joinpath("tokenizer.json").rename(
        folder / "tokenizer.json"
    )
    with pytest.raises(EmbedderUnavailable, match="cannot be loaded by ONNX Runtime"):
        opened(folder)


def test_texts_are_cut_at_512_tokens_by_default(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", SHAPES["BERT, mean"])
    (folder / "sentence_bert_config.json").unlink()
    assert opened(folder).card.max_tokens == 510
    assert opened(folder, max_tokens=40).card.max_tokens == 38
    assert opened(folder).card.dimensions == WIDTH
