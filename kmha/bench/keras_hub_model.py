"""The model made of KerasHub's `TransformerEncoder` and `TransformerDecoder`, with KerasHub's cache and sampler."""

from typing import Any

import keras
import keras_hub
import tensorflow as tf
from keras import ops

from kmha.bench.builtin_model import EPSILON, BlockLayers, EncoderDecoder, TiedEmbedding
from kmha.bench.cases import ModelRow


class HubModel(EncoderDecoder):
    """The model made of KerasHub's blocks, with the weights of the model made of Keras' own layers."""

    def __init__(
        self, row: ModelRow, embedding: TiedEmbedding, encoder: list[BlockLayers], decoder: list[BlockLayers]
    ) -> None:
        settings: dict[str, Any] = {"intermediate_dim": row.feed_forward, "num_heads": row.heads}
        settings |= {"dropout": row.rate, "layer_norm_epsilon": EPSILON}
        own = TiedEmbedding(row)
        dropouts = [keras.layers.Dropout(row.rate) for _ in range(2)]
        self.encoders = [keras_hub.layers.TransformerEncoder(**settings) for _ in encoder]
        self.decoders = [keras_hub.layers.TransformerDecoder(**settings) for _ in decoder]
        first = [lambda x, mask, layer=layer: layer(x, padding_mask=mask) for layer in self.encoders]
        second = [
            lambda x, mask, memory, memory_mask, layer=layer: layer(
                x, memory, decoder_padding_mask=mask, encoder_padding_mask=memory_mask
            )
            for layer in self.decoders
        ]
        super().__init__(row, first, second, dropouts, own)
        own.set_weights(embedding.get_weights())
        for layer, block in zip((*self.encoders, *self.decoders), (*encoder, *decoder), strict=True):
            layer.set_weights([array for part in _in_order(block) for array in part.get_weights()])


def _in_order(block: BlockLayers) -> list[Any]:
    """Return the sublayers of a block in the order of KerasHub's weights."""
    if len(block.attentions) == 1:
        return [*block.attentions, *block.norms, *block.dense]
    (own, cross), norms = block.attentions, block.norms
    return [own, norms[0], cross, norms[1], *block.dense, norms[2]]


def caching(model: HubModel, row: ModelRow, start: int) -> Any:
    """Return a greedy decoder with KerasHub's cache and sampler."""
    shape = row.batch, 2, row.length, row.heads, row.width // row.heads

    @tf.function(autograph=False)
    def decode(source: Any) -> Any:
        memory, mask = model.encoder(source), ops.not_equal(source, 0)

        def decode_ids(ids: Any, own: list[Any], cross: list[Any], index: Any, cross_index: Any) -> Any:
            x, caches = model.embedding(ids, start=index), []
            for layer, *both in zip(model.decoders, own, cross, strict=True):
                given = {"self_attention_cache": both[0], "self_attention_cache_update_index": index}
                given |= {"cross_attention_cache": both[1], "cross_attention_cache_update_index": cross_index}
                x, *both = layer(x, memory, encoder_padding_mask=mask, **given)
                caches.append(both)
            return model.embedding(x[:, 0], reverse=True), *map(list, zip(*caches, strict=True))

        own = [ops.zeros(shape) for _ in model.decoders]
        cross = [ops.zeros((*shape[:2], row.source, *shape[3:])) for _ in model.decoders]
        prompt = ops.concatenate([ops.full((row.batch, 1), start), ops.zeros((row.batch, row.length), "int32")], 1)
        # This call fills the caches. The loop computes the first token again.
        _, own, cross = decode_ids(prompt[:, :1], own, cross, 0, 0)

        def following(prompt: Any, own: Any, index: Any) -> tuple[Any, Any, Any]:
            ids = ops.slice(prompt, (0, index - 1), (row.batch, 1))
            logits, own, _ = decode_ids(ids, own, cross, index - 1, None)
            return logits, None, own

        return keras_hub.samplers.GreedySampler()(following, prompt, own, index=1)[:, 1:]

    return decode
