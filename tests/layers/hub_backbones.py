"""Build KerasHub's backbones small, and train those with `keras.layers.MultiHeadAttention` one step.

`python hub_backbones.py builtin|kmha FOLDER` writes a file of arrays for each backbone: its outputs, its loss, and all
weights after the step. With `kmha`, KerasHub is imported under `kmha.patch_keras()`, and the kernels of our layers are
saved as the built-in has them. `backbones.json` says how many attention layers each backbone has, or why it is not
built. A backbone that is new in KerasHub is built too, or reported.
"""

import contextlib
import gc
import inspect
import json
import pathlib
import re
import sys

import keras
import numpy as np

SHAPE = (16, 16, 3)
# Arguments that a backbone's constructor requires, or takes, by name.
SIZES = {
    **dict.fromkeys(("vocabulary_size", "vocab_size"), 10),
    **dict.fromkeys(("num_layers", "num_layers_enc", "num_layers_dec", "num_heads", "num_attention_heads"), 2),
    **dict.fromkeys(("num_key_value_heads", "num_experts", "num_frames"), 2),
    **dict.fromkeys(("encoder_num_layers", "decoder_num_layers", "num_decoder_layers", "num_decoder_heads"), 2),
    **dict.fromkeys(("encoder_num_heads", "decoder_num_heads"), 2),
    **dict.fromkeys(("num_query_heads", "head_dim", "head_size", "patch_size", "window_size"), 4),
    **dict.fromkeys(("hidden_dim", "hidden_size", "decoder_hidden_dim", "filter_dim"), 16),
    **dict.fromkeys(("intermediate_dim", "mlp_dim", "decoder_mlp_dim", "moe_intermediate_dim"), 12),
    **dict.fromkeys(("shared_expert_intermediate_dim", "shared_expert_intermediate_size"), 12),
    **dict.fromkeys(("num_spatial_layers", "num_temporal_layers", "num_auxiliary_layers", "top_k"), 1),
    **dict.fromkeys(("dropout", "dropout_rate", "attention_dropout", "drop_path_rate"), 0.0),
    **dict.fromkeys(("max_sequence_length", "max_encoder_sequence_length", "max_decoder_sequence_length"), 8),
    "image_shape": SHAPE,
    "embedding_dim": 6,
    "max_label_length": 7,
}
LENGTHS = {"encoder_features": 8, "encoder_input_values": 2000, "boxes": 1, "box_labels": 1}
ABSTRACT = "abstract"
CONVOLUTIONS = "convolutions, and what the image encoder that it is given has"
OWN = "an attention of its own"
CONVOLUTIONAL = "BASNet CSPNet DeepLabV3 DenseNet EfficientNet HGNetV2 MobileNet ResNet RetinaNet VGG Xception"
WITH_THEIR_OWN = """DFine Flux Gemma3 Gemma3n Gemma4 MiT MobileNetV5 RWKV7 SAM SegFormer SmolLM SmolLM3 SwinTransformer
T5Gemma T5Gemma2 ViTDet"""
NOT_BUILT = {
    **dict.fromkeys(("", "FeaturePyramid"), ABSTRACT),
    **dict.fromkeys(re.split(r"\s+", CONVOLUTIONAL), CONVOLUTIONS),
    **dict.fromkeys(re.split(r"\s+", WITH_THEIR_OWN), OWN),
}


def make(class_, *args, **more):
    """Return an object of a class of KerasHub, with the arguments of `SIZES` that it takes."""
    names = inspect.signature(class_.__init__).parameters
    return class_(*args, **{name: size for name, size in SIZES.items() if name in names and name not in more}, **more)


def whole(models, name):
    """Return a backbone. Those that are made of other models are given small ones."""
    class_ = getattr(models, name)
    match name.removesuffix("Backbone"):
        case "BLIP2":
            return blip2(class_)
        case "CLIP" | "MetaCLIP2" | "SigLIP" as family:
            more = {} if family == "SigLIP" else {"projection_dim": 5}
            text = make(getattr(models, f"{family}TextEncoder"), embedding_dim=16, max_sequence_length=5)
            return class_(make(getattr(models, f"{family}VisionEncoder")), text, **more)
        case "DepthAnything":
            return class_(make(models.DINOV2Backbone), [4, 2], [3, 5], 6, 7, -1, ["stage1", "stage2"])
        case "PARSeq":
            return make(class_, make(models.ViTBackbone, use_class_token=False))
        case "PaliGemma":
            sizes = {"patch_size": 4, "num_heads": 2, "hidden_dim": 8, "num_layers": 2, "intermediate_dim": 9}
            return make(class_, image_size=16, **{f"vit_{key}": size for key, size in sizes.items()})
        case "SAM3PromptableConcept":
            return sam3(class_)
        case "StableDiffusion3":
            from keras_hub.src.models.vae import vae_backbone

            texts = [make(models.CLIPTextEncoder, embedding_dim=16, intermediate_output_index=0) for _ in range(2)]
            vae = vae_backbone.VAEBackbone([32] * 4, [1] * 4, [32] * 4, [1] * 4, image_shape=SHAPE)
            return class_(2, 16, 1, 2, 8, None, None, vae, *texts, image_shape=SHAPE)
    return make(class_)


def blip2(class_):
    from keras_hub.src.models.blip2 import blip2_custom_opt, blip2_qformer, blip2_vision_encoder

    biases = {"use_patch_bias": True, "use_class_token": True, "use_mha_bias": True, "use_mlp_bias": True}
    rest = {"layer_norm_epsilon": 1e-6, "initializer_range": 0.02}
    vision = make(blip2_vision_encoder.BLIP2VisionEncoder, image_size=16, **biases, **rest)
    query = {"num_query_tokens": 3, "vision_dim": 16, "cross_attention_frequency": 2, "layer_norm_epsilon": 1e-6}
    former = make(blip2_qformer.BLIP2QFormer, **query)
    return class_(vision, former, make(blip2_custom_opt.BLIP2CustomOPT, num_query_tokens=3, qformer_hidden_dim=16))


def sam3(class_):
    from keras_hub import layers

    shape, sizes = (28, 28, 3), {"num_layers": 1, "patch_size": 7, "image_shape": (28, 28, 3)}
    pyramid = {"fpn_hidden_dim": 16, "fpn_scale_factors": [4.0, 2.0, 1.0, 0.5]}
    windows = {"pretrain_image_shape": shape, "window_size": 2, "global_attn_indexes": [0]}
    return class_(
        make(layers.SAM3VisionEncoder, **sizes, **pyramid, **windows),
        make(layers.SAM3TextEncoder, embedding_dim=16),
        make(layers.SAM3GeometryEncoder, num_layers=1, roi_size=3),
        make(layers.SAM3DetrEncoder, num_layers=1),
        make(layers.SAM3DetrDecoder, **sizes, num_queries=5),
        make(layers.SAM3MaskDecoder, num_upsampling_stages=3),
        dtype="float32",
    )


def inputs_of(backbone):
    """Return random inputs: ids, images or sound, and masks that hide the last two positions of the first item."""
    random = np.random.default_rng(0)
    one = not isinstance(backbone.input, dict)
    arrays = {}
    for name, tensor in ({"images": backbone.input} if one else backbone.input).items():
        hides_sound = name == "encoder_padding_mask" and "encoder_input_values" in backbone.input
        length = LENGTHS.get("encoder_input_values" if hides_sound else name, 5)
        shape = [2, *(size or length for size in tensor.shape[1:])]
        if "mask" in name:
            arrays[name] = np.ones(shape, tensor.dtype)
            arrays[name][0, -(length // 4 + 1) :] = 0
        elif "box" in name:
            arrays[name] = np.zeros(shape, tensor.dtype)
        elif "int" in tensor.dtype:
            arrays[name] = random.integers(1, 2 if "segment" in name else 9, shape).astype(tensor.dtype)
        else:
            arrays[name] = random.normal(size=shape).astype(tensor.dtype)
    return arrays["images"] if one else arrays


def run(backbone):
    """Return the outputs, the loss of a training step, and the gradients, which are the first step's momentum."""
    inputs, random = inputs_of(backbone), np.random.default_rng(1)
    outputs = [keras.ops.convert_to_numpy(x) for x in keras.tree.flatten(backbone(inputs))]
    model = keras.Model(backbone.input, keras.tree.flatten(backbone.output))
    model.compile(keras.optimizers.SGD(-1.0, momentum=0.9), ["mse"] * len(outputs), jit_compile=False)
    model.optimizer.build(model.trainable_variables)  # otherwise the step is traced twice
    targets = [random.normal(size=output.shape).astype(output.dtype) for output in outputs]
    loss = model.train_on_batch(inputs, targets)
    return [*outputs, np.asarray(loss), *gradients(model)]


def gradients(model):
    """Return the gradient of each weight, that of our projections' kernels as the built-in has it: (I, H, O)."""
    import kmha

    ours = {id(x.kernel) for x in model._flatten_layers() if isinstance(x, kmha.layers.HeadProjection)}
    arrays = [keras.ops.convert_to_numpy(x) for x in model.optimizer.momentums]
    pairs = zip(model.trainable_weights, arrays, strict=True)
    return [array.swapaxes(0, 1) if id(weight) in ours else array for weight, array in pairs]


def names_no_attention(class_):
    """Return whether no file in the backbone's folder names the built-in layer, or a layer of KerasHub that has it."""
    names = re.compile(r"\blayers\.MultiHeadAttention|(cached_multi_head_attention|transformer_(en|de)coder) import")
    files = pathlib.Path(inspect.getsourcefile(class_)).parent.glob("*.py")
    return not any(re.search(names, re.sub(r'"""[\s\S]*?"""', "", path.read_text("utf-8"))) for path in files)


def count_and_run(models, name, folder):
    """Return the number of attention layers. If there are any, write the numbers of the backbone."""
    keras.utils.set_random_seed(3)
    backbone = whole(models, name)
    count = sum(isinstance(layer, keras.layers.MultiHeadAttention) for layer in backbone._flatten_layers())
    if count:
        np.savez(folder / f"{name}.npz", *run(backbone))
    return count


def main(which, folder):
    with contextlib.ExitStack() as stack:
        if which == "kmha":
            import kmha

            stack.enter_context(kmha.patch_keras())
        from keras_hub import models

        found = {}
        for name in sorted(name for name in dir(models) if name.endswith("Backbone")):
            found[name] = NOT_BUILT.get(name.removesuffix("Backbone"), "")
            if found[name] == ABSTRACT:
                continue
            if found[name]:
                found[name] += "" if names_no_attention(getattr(models, name)) else ", but it names the built-in layer"
                continue
            try:
                found[name] = count_and_run(models, name, folder)
            except Exception as error:
                found[name] = f"raised {error!r}"
            keras.utils.clear_session(free_memory=False)
            gc.freeze()  # what is left is not looked at again
    (folder / "backbones.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
