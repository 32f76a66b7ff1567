"""Common names of arguments and weights, and the role that each name stands for.

Names are compared in lower case and without underscores: `num_heads`, `numHeads` and `NUM_HEADS` are the same.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

# Names of arguments of calls and constructors, for each role.
ARGUMENTS: dict[str, str] = {
    "query": "query queries q xq queryinput tgt trg dec decodersequence decoderinput queryinputs inputsq inputq",
    "key": "key keys k xk keyinput inputsk inputk",
    "value": "value values v xv val valueinput inputsv inputv",
    "self": "x inputs input inp inputtensor xs tokens embeddings hiddenstates hiddenstate sequence src data tensor",
    "memory": "xkv kvinput inputkv memory context ctx kv inputskv source enc "
    "keyvalue keyvalues keysvalues kvsource kvstates sourcekv "
    "cross encoderhiddenstates encodersequence memoryinput encx encodings mem encoded",
    "mask": "mask masks attentionmask attnmask msk m srcmask selfattnmask slfattnmask selfmask selfattentionmask "
    "attnmasks attentionmasks",
    "look_ahead": "lookaheadmask tgtmask targetmask trgmask decoderattentionmask decodermask decmask",
    "depth": "depth numlayers nlayers layers nlayer numblocks",
    "causal": "causal causality iscausal usecausalmask autoregressive",
    "padding": "keymask keypaddingmask paddingmask valuemask padmask keypadding memorykeypaddingmask srckeypaddingmask "
    "padding encoderpaddingmask srcpaddingmask srcpadmask memorypaddingmask contextmask pad ispad ispadding padded "
    "selfattnpaddingmask selfattentionpaddingmask "
    "istoken isvalid validmask tokenmask ymask maskys srcpad sourcepad memorypad contextpad",
    "memory_mask": "memorymask encodermask encoderattentionmask crossattentionmask crossattnmask crossmask encmask "
    "decencattnmask decencmask encoderdecodermask decoderencodermask encdecmask",
    "target_padding": "tgtkeypaddingmask decoderpaddingmask tgtpaddingmask tgtpadmask querykeypaddingmask tgtpad "
    "trgpad targetpad",
    "query_padding": "querymask",
    "lengths": "validlens validlen validlengths lengths seqlens keylengths keylens sourcelengths srclengths srclens "
    "memorylengths encoderlengths inputlengths sequencelengths sourcelens",
    "heads": "numheads numhead nheads heads h nhead headnum headsnum numattentionheads numberofheads nhead "
    "attentionheads nattentionheads nattnheads attnheads encoderattentionheads numqueryheads numqheads numheadsq "
    "headcount nqueryheads queryheads cabezas cabecas tetes koepfe teste",
    "kv_heads": "numkvheads nkvheads numkeyvalueheads nquerygroups numquerygroups kvheads nkvhead numkvhead "
    "numattentiongroups nlocalheads numgroups",
    "temperature": "temperature",
    "soft_cap": "softcap logitcap logitscap attnlogitcap softcapping attnsoftcap cap",
    "size": "keydim headsize headdim sizeperhead dk dkv dhead dimhead qkvdim projectiondim dkey "
    "keysize qksize headwidth headfeatures attentionheadsize qkheaddim dimperhead",
    "value_size": "valuedim dv valuesize vosize vheaddim dvalue",
    "width": "dmodel embeddim embeddingdim modeldim numhiddens hiddensize units dim embdim width hiddendim dembed "
    "nembd embsize hiddim dimmodel channels nchannels embedsize embeddingsize modelsize embedingdim qkvfeatures hid "
    "hidsize emb embed d dembedding embdims embeddims nstate nembed edim hiddenunits dmod dimension attndim "
    "attentiondim depthatt projectdim nhid ninp nunits nfeat modelwidth hiddenchannels hdim edims hidden dm nfeatures "
    "numfeatures vecsize vectorsize canales numunits rnnsize rnnunits gruunits lstmunits decunits encunits attnunits",
    "output": "outputshape outputsize outdim dout outputdim outputfeatures outfeatures outputdepth depthout dimout",
    "inputs": "infeatures dimin indim inputdim inputsize querydim querysize queryshape din inchannels qdim inputwidth "
    "inputfeatures",
    "inner": "fullyconnecteddim dff ffdim feedforwarddim intermediatedim dimfeedforward ffnnumhiddens feedforwardsize "
    "hiddenff mlpdim pfdim ffsize densedim latentdim ffnhidden ffhidden dinner dimff hiddenfeatures filtersize dhidden "
    "ffndim ffwidth innerdim feedforwarddimension intermediatesize ninner nhidden inter feedforwardchannels ffnsize "
    "encoderffndim decoderffndim feedforwardhiddensize ffembeddim dimffn ffnembeddim hiddenwidth ffdimension "
    "feedforwardhidden ff neurons",
    "batch_first": "batchfirst",
    "use_bias": "usebias withbias bias useattentionbias qkvbias attentionbias attnbias outbias useqkvbias",
    "dropout": "dropout rate dropoutrate dropoutp pdrop attnpdrop droprate dropoutprob attndropout attentiondropout "
    "residdropout residpdrop dropprob projdrop attndrop dropoutratio residualdropout attentionprobsdropoutprob "
    "dropoutprobability",
    "training": "training train istraining",
    "deterministic": "deterministic inference",
    "scores": "returnattentionscores returnscores returnattention needweights returnweights returnattnscores "
    "returnattncoef outputattentions",
    "epsilon": "layernormeps epsilon eps layernormepsilon normeps",
    "norm_first": "normfirst prenorm normalizefirst",
    "vocabulary": "vocabsize inputvocabsize vocabularysize targetvocabsize numembeddings nvocab vocab ntoken ntokens "
    "numtokens paddedvocabsize vocablen srcvocabsize numvocab vocabsz",
    "length": "maximumpositionencoding maxlen maxlength maximumpositions maxpositionalencoding maxpositions "
    "sequencelength contextlength blocksize maxseqlen maxpositionembeddings contextsize ctxlen nctx nctxlen "
    "maxsequencelength maxseqlength contextwindow seqlen seqlength",
    "ids": "ids tokenids inputids",
    "weights": "weights params parameters",
    "memory_width": "depthkeyvalue",
}
# Names of the feed-forward network's hidden features, if another argument is the width.
HIDDEN = re.compile("^(d|n|num)?hid(den)?s?(dim|size|count)?$|^units$")
LETTERS = ("n", "c", "e", "w")  # arguments of a constructor that may be the width
# Names of what turns its input by positions.
ROTARY = re.compile("rotary|rope|rotate|(^|_)rot_")
AXES = re.compile("_[btsndhlckqvmfw]{2,4}$|_[BTSNDHLCKQVMFW]{2,4}$")  # in names such as `x_btd`
_ARRAY = "(x|inputs?|tensors?|hidden|(hidden)?states?|seq(uence)?s?|vectors?|embs?|embeddings?)$"
# Names that say what a mask does to the keys where it is True.
_ATTENDING = "(is)?(keep|kept|visible|visibility|allow(ed)?|permit(ted)?|alive|attendable|(can|may)(attend|see))"
_HIDING = "(is)?(ignored?|hide|blocked|forbidden|masked)"
_WIDTH = "(channels|dims?|size|sz|features?|width|count)"
# Names of arguments that belong to the memory, which is the output of an encoder.
OF_MEMORY = re.compile("encoder|(^|_)enc_|memory|cross|context")
# Patterns of names that no list has.
PATTERNS = {
    "mask": f"^({_ATTENDING}|{_HIDING})(positions?|pos|keys?)?$",
    "inner": "(ffn?|feedforward|mlp|intermediate|inner).*(size|dim|units|width|features|hid(den)?|channels|count)"
    "|^(d|dim|n|num)(ffn?|feedforward|mlp)$",
    "heads": "^(n|nb|num|number)(of)?(self|cross|mha|attn|attention)*heads$",
    "dropout": "^(hidden|attention|attn|residual|resid|ffn|proj|output|embedding)*drop(out)?(rate|prob(ability)?|p)?$",
    "output": "^feat(ure)?(s|dim|size)$",
    "inputs": f"^(d|n|num|dim)?(q|query)?in(put)?{_WIDTH}$",
    "memory_width": f"^(d|n|num|dim)?(kv|keyvalue|memory|context|ctx|encoder)(in(put)?)?{_WIDTH}$",
    "width": f"^(d|n|num)(model|emb(ed*)?(ding)?s?|hid(den)?s?)$|^(model|emb(ed*)?(ding)?s?|hid(den)?s?){_WIDTH}$",
    "length": "^(max|n|num|number)?(of)?(sentence|seq(uence)?|context|block|input|src|tgt|text)?(len(gth)?|positions?)$"
    "|^max(t|tokens|pos|position)$",
    "padding": "^(is|are)?(token|word|key|item|position|frame|memory|context|src|source|enc(oder)?|input)?s?"
    "(is|are)?(ok|valid)$",
    "query": f"^(query|queries|q|from|dec|decoder|tgt|target){_ARRAY}",
    "key": f"^(key|keys|k){_ARRAY}",
    "value": f"^(value|values|v){_ARRAY}",
    "memory": f"^(source|memory|context|enc|encoder|to|kv){_ARRAY}|"
    "^enc(od(er|ed?|ing))?(out(put)?s?|src|source|memory|representations?)$|^(src|source)enc(od(ed|ing|er))?(out(put)?)?$|"
    f"^cross(attention|attn)?(src|source|memory|context|{_ARRAY.removesuffix('$')})$",
}
_BY_NAME = {name: role for role, names in ARGUMENTS.items() for name in names.split()}

_ROLES = {
    "query": "queries|query|que|qs|q",
    "key": "keys|key|ks|k",
    "value": "values|value|val|vs|v",
    "attention_output": "attentionoutput|attnoutput|outputs|output|out|o|merge|final|combineheads|combine|concat|cproj",
    "packed": "(?:query|queries)keys?values?|qkv|inproj|cattn|kqv",
    "key_value": "kvs?|keys?values?",
}
_KINDS = "w|b|mat|kernel|weights?|bias(?:es)?|linear|dense|layer|fc"
_BEFORE = f"(?:head[0-9]+|to|in|p(?=[qkvo]$)|{_KINDS}|proj|self|attn|att|i|ff(?=[qkv]))*"
_AFTER = f"(?:proj(?:ection)?|emb(?:ed(?:ding)?)?|{_KINDS}|transform|matrix|line?|net)*"
_WEIGHTS = {role: re.compile(f"^{_BEFORE}(?:{names.lower()}){_AFTER}[0-9]*$") for role, names in _ROLES.items()}
_OF = "query|key|value|output|out|qkv|q|k|v|o"
_BIAS = re.compile(rf"^(?:b|.*bias(?:es)?|b(?:{_OF})|(?:{_OF})b)[0-9]*$")


def plain(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def argument(name: str) -> str | None:
    """Return the role of an argument, such as "query", or `None` for an unknown name.

    The letters of the axes at the end of a name say nothing of its role.

    >>> argument("nHeads"), argument("enc_output"), argument("enc_src"), argument("colour")
    ('heads', 'memory', 'memory', None)
    >>> argument("key_masks"), argument("visible")
    ('padding', 'mask')
    >>> argument("context_bsd"), argument("x_BTD")
    ('memory', 'self')
    """
    full = name.rpartition(".")[2]
    for name in (plain(full), plain(AXES.sub("", full)), plain(full).replace("masks", "mask")):
        found = (role for role, pattern in PATTERNS.items() if re.search(pattern, name))
        if role := _BY_NAME.get(name) or next(found, None):
            return role
    return None


def role_hint(role: str, names: Iterable[str]) -> str:
    """Return a sentence with the option that says which argument has a role, or "" without arguments.

    >>> role_hint("query", ["entree"])
    " Say which it is: --role query=entree, or roles={'query': 'entree'}."
    """
    first = next(iter(names), None)
    if first is None:
        return ""
    return f" Say which it is: --role {role}={first}, or roles={{{role!r}: {first!r}}}."


def mask_meaning(name: str) -> str:
    """Return what True means in a mask by the custom of its name: torch's `key_padding_mask` hides.

    >>> mask_meaning("key_padding_mask"), mask_meaning("mask"), mask_meaning("attn_bias")
    ('hides', 'attends', 'adds')
    """
    if plain(name).endswith("bias"):
        return "adds"
    hiding = f"keypadding|ignore|hidden|maskedpos|^(is)?pad(ded)?$|^ispadding$|^{_HIDING}(positions?|pos|keys?)?$"
    return "hides" if re.search(hiding, plain(name)) else "attends"


def is_mask(name: str) -> bool:
    """Return whether an argument has the name of a mask.

    >>> is_mask("tgt_mask"), is_mask("visible"), is_mask("use_causal_mask")
    (True, True, False)
    """
    return bool(re.search(f"mask|{PATTERNS['mask']}", plain(name))) and argument(name) not in ("causal", None)


def weight(path: str) -> tuple[str | None, bool]:
    """Return the projection that a weight belongs to, and whether the weight's name means a bias.

    The last part of the path with a known name decides.

    >>> weight("my_attention/q_proj/kernel"), weight("wo"), weight("layers.0.b_k"), weight("dense_3/bias")
    (('query', False), ('attention_output', False), ('key', True), (None, True))
    """
    inside = re.sub(r"_einsum(?=[/.])", "", path)  # the name of a layer; an argument may be an einsum itself
    parts = [plain(part) for part in re.split(r"[/.]", inside) if plain(part)]
    is_bias = bool(parts) and bool(_BIAS.match(parts[-1]))
    for part in reversed(parts):
        for role, pattern in _WEIGHTS.items():
            if pattern.match(part):
                return role, is_bias
    return None, is_bias


def without_kind(name: str) -> str:
    """Return the name of a weight without the part that means kernel or bias.

    >>> without_kind("projection_kernel"), without_kind("projection_bias"), without_kind("w_1"), without_kind("b_1")
    ('projection', 'projection', '1', '1')
    >>> without_kind("proj_w"), without_kind("proj_b")
    ('proj', 'proj')
    """
    short = plain(re.sub("(?<=.)_[wb]$", "", name.lower()))
    return re.sub(r"kernel|weights?|bias(es)?|^[wb](?=[^a-z]|$)", "", short) or plain(name)


def roles_of(names: Iterable[str], said: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the first argument name for each role. What is named like an encoder's state is the input if it is alone.

    Args:
        names: Names of arguments.
        said: Names that the user gave for roles, which come before names that kmha knows.

    >>> roles_of(["d_model", "num_heads", "kind"])
    {'width': 'd_model', 'heads': 'num_heads'}
    >>> roles_of(["enc_input", "mask"]), roles_of(["dec_input", "enc_input"])
    ({'mask': 'mask', 'self': 'enc_input'}, {'query': 'dec_input', 'memory': 'enc_input'})
    >>> roles_of(["x", "y"]), roles_of(["src", "tgt"])
    ({'self': 'x', 'memory': 'y'}, {'query': 'tgt', 'memory': 'src'})
    """
    names = list(names)
    by_input = "querysize" in map(plain, names)  # then the sizes of key and value are those of the inputs too
    found = {role: name for role, name in said.items() if name in names}
    for name in names:
        role = argument(name)
        if by_input and plain(name) in ("keysize", "valuesize"):
            continue
        if role == "width" and role in found and HIDDEN.search(plain(name)):
            role = "inner"
        if role is not None and name not in said.values():
            found.setdefault(role, name)
    size = next((name for name in names if plain(name) == "size"), None)
    if size and not {"width", "inputs", "size", "query", "key"} & found.keys():
        found["width"] = size
    if "memory" in found and not {"query", "key", "value", "self", "ids"} & found.keys() and all(map(argument, names)):
        found["self"] = found.pop("memory")
    if "query" in found and plain(found.get("self", "")) in ("src", "source") and not {"memory", "key"} & found.keys():
        found["memory"] = found.pop("self")
    other = {"x": "y", "xs": "ys"}.get(found.get("self", ""), "")
    if other in names and not {"memory", "key"} & found.keys():
        found["memory"] = other
    latents = next((name for name in names if plain(name) in ("latents", "latent", "slots")), None)
    if latents and "self" in found and not {"query", "key", "memory"} & found.keys():  # as in Perceiver
        found["query"], found["memory"] = latents, found.pop("self")
    target = next((name for name in names if plain(name) in ("target", "targets")), None)
    if target and "memory" in found and not {"query", "self", "ids"} & found.keys():
        found["query"] = target  # beside an input, it is what a model should return
    special = next((name for name in names if plain(name) in ("attnmask", "attentionmask")), None)
    if special and "mask" not in said and plain(found.get("mask", "")) == "mask":
        found["mask"] = special  # beside it, `mask` is often for padding
    return found


# Names of the number of features of each head that a layer rotates.
ROTARY_SIZES = "rotarydim rotarysize rotdim ropedim nrot rotaryndims rotaryembdim"


def roles_of_constructor(names: Iterable[str], said: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the first argument name for each role, as `roles_of` does, for arguments of a constructor.

    >>> roles_of_constructor(["d_model", "q", "v", "h"])
    {'width': 'd_model', 'heads': 'h', 'size': 'q', 'value_size': 'v'}
    >>> roles_of_constructor(["n", "heads", "hidden"])
    {'heads': 'heads', 'width': 'n', 'inner': 'hidden'}
    >>> roles_of_constructor(["d", "h", "k"])
    {'width': 'd', 'heads': 'h', 'size': 'k'}
    """
    names = list(names)
    found = roles_of(names, said)
    turned = [name for name in names if plain(name.rpartition(".")[2]) in ROTARY_SIZES.split()]
    found |= {"rotary_size": turned[0]} if turned else {}
    width = found.get("width", "")
    if plain(found.get("inner", "")) == "latentdim" and "inputs" in found and "width" not in found:  # as in Perceiver
        found["width"], found["memory_width"] = found.pop("inner"), found.pop("inputs")
    letter = next((name for name in names if name in LETTERS and name not in said.values()), "")
    if letter and "inner" not in found and HIDDEN.search(plain(width)):
        places = [names.index(name) for name in (letter, found.get("heads", letter), width)]
        if places == sorted({*places}):  # the hidden features of a network come after the heads
            found |= {"width": letter, "inner": width}
    inputs = {role: found[role] for role in ("query", "key", "value") if role in found}
    if {"heads", "width"} <= found.keys() and inputs in _LETTERS_OF_SIZES:
        found["size"] = found.pop("query" if "query" in inputs else "key")
        found |= {"value_size": found.pop("value")} if "value" in inputs else {}
    return found


# Arguments beside a width and a number of heads that are sizes of heads, as papers write them.
_LETTERS_OF_SIZES = ({"query": "q", "value": "v"}, {"key": "k", "value": "v"}, {"key": "k"})
