"""What encoder and decoder share: token ids to embeddings with positions, and a stack of blocks."""

from typing import Any

import keras

from kmha.core import masks
from kmha.layers import arguments, calls
from kmha.layers.block import OPTIONS, carried
from kmha.layers.embedding import PositionalEncoding, TokenEmbedding


class Stack(calls.TeachingLayer):
    """Embedding, positions, dropout, blocks of `_layer_class`, and with pre-norm a last normalization."""

    _layer_class: Any
    _score_names: tuple[str, ...]  # of what a block returns besides its output

    def __init__(
        self,
        num_layers: int,
        embedding_dim: int,
        num_heads: int,
        fully_connected_dim: int,
        vocabulary: tuple[str, int],
        maximum_position_encoding: int,
        dropout_rate: float,
        layernorm_eps: float,
        pad_id: int | None,
        embeddings_initializer: Any,
        embedding: TokenEmbedding | None = None,
        **kwargs: Any,
    ) -> None:
        options = {name: kwargs.pop(name) for name in OPTIONS if name in kwargs}
        with arguments.naming_unknown(type(self), *OPTIONS):
            super().__init__(**kwargs)
        layer, (argument, size) = type(self).__name__, vocabulary
        num_layers = arguments.size(layer, "num_layers", num_layers, "layers", "6 in the paper.")
        vocabulary_size = arguments.size(layer, argument, size, "token ids", "Padding counts too.")
        self.supports_masking = True
        self.embedding_dim = arguments.size(layer, "embedding_dim", embedding_dim, "D", "512 in the paper.")
        self.pad_id = pad_id
        if isinstance(embeddings_initializer, keras.initializers.Initializer):
            embeddings_initializer = embeddings_initializer.clone()  # one instance draws the same for every table
        self.embedding = embedding or TokenEmbedding(
            vocabulary_size, embedding_dim, embeddings_initializer, name="embedding", dtype=self.dtype_policy
        )
        self.pos_encoding = PositionalEncoding(maximum_position_encoding, name="pos_encoding", dtype=self.dtype_policy)
        sizes = embedding_dim, num_heads, fully_connected_dim, dropout_rate, layernorm_eps
        self._blocks = [
            self._layer_class(*sizes, **options, name=f"layer{number}", dtype=self.dtype_policy)
            for number in range(1, num_layers + 1)
        ]
        self.dropout = keras.layers.Dropout(dropout_rate, name="dropout", dtype=self.dtype_policy)
        self._last_norm = self._blocks[0]._make_norm("layernorm") if self._blocks[0].norm == "pre" else None
        self._arguments = {
            "num_layers": num_layers,
            "embedding_dim": embedding_dim,
            "num_heads": num_heads,
            "fully_connected_dim": fully_connected_dim,
            argument: vocabulary_size,
            "maximum_position_encoding": maximum_position_encoding,
            "dropout_rate": dropout_rate,
            "layernorm_eps": layernorm_eps,
            "pad_id": pad_id,
            "embeddings_initializer": keras.initializers.serialize(self.embedding.embeddings_initializer),
            **options,
        }

    def build(self, x_shape: Any = None) -> None:
        """Makes the weights, whose shapes do not depend on the input's."""
        self._build()

    def _build(self, *more: Any) -> None:
        """Makes the weights; the blocks are built for (B, T, D), and for inputs of the shapes `more`."""
        features = None, None, self.embedding_dim
        if not self.embedding.built:  # it may be shared
            self.embedding.build()
        self.pos_encoding.build(features)
        for layer in self._blocks:
            layer.build(features, *more)
        if self._last_norm is not None:
            self._last_norm.build(features)

    def _run(self, x: Any, training: Any, return_scores: bool, *more: Any, **options: Any) -> Any:
        """Ids (B, T) to (B, T, D), and with `return_scores` the scores by name; blocks get `more` and `options`."""
        options |= {"training": training, "return_attention_scores": return_scores}
        x = self._embed(x, training)
        scores: dict[str, Any] = {}
        for number, layer in enumerate(self._blocks, 1):
            outputs = layer(x, *more, **options)
            if return_scores:
                outputs, *found = outputs
                scores.update(zip(self._names(number), found, strict=True))
            x = outputs
        x = self._finish(x)
        return (x, scores) if return_scores else x

    def _spec(self, ids: Any, lengths: list[Any], return_scores: bool) -> Any:
        """What `_run` gives, symbolically, where the scores of a block are (B, H, T, S) for each S of `lengths`.

        Keras would find out by calling with lengths of its own choice, for which there may be no positions.
        """
        calls.check_ids(self.name, ids)
        batch, length = ids.shape
        output = keras.KerasTensor((batch, length, self.embedding_dim), dtype=self.compute_dtype)
        if not return_scores:
            return output
        scores = {}
        for number in range(1, len(self._blocks) + 1):
            for name, keys in zip(self._names(number), lengths, strict=True):
                shape = batch, self._arguments["num_heads"], length, keys
                scores[name] = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return output, scores

    def _names(self, number: int) -> list[str]:
        """Of the scores of a block, counted from 1."""
        return [name.format(number) for name in self._score_names]

    def compute_mask(self, x: Any, previous_mask: Any) -> Any:
        return carried(previous_mask)

    def padding(self, ids: Any) -> Any:
        """(B, 1, S), False at padding; `None` if no id means padding."""
        return None if self.pad_id is None else masks.padding(ids, self.pad_id)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._arguments}

    def _embed(self, ids: Any, training: Any, start: Any = 0) -> Any:
        calls.check_ids(self.name, ids)
        return self.dropout(self.pos_encoding(self.embedding(ids), start=start), training=training)

    def _finish(self, x: Any) -> Any:
        return x if self._last_norm is None else self._last_norm(x)
