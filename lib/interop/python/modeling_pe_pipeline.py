# Copyright (c) 2026 the authors of pe-pipeline. MIT licence: this file may be copied with the model.
"""Decoders with positional encodings that no stock class of transformers has, as pe-pipeline exports them.

The whole text is computed at every step: there is no key/value cache, and no padding on the left.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class PePipelineConfig(PretrainedConfig):
    model_type = "pe_pipeline"

    def __init__(self, pe_model=None, pe_members=None, pe_parameters=None, **kwargs):
        self.pe_model = pe_model or {}
        self.pe_members = pe_members or []
        self.pe_parameters = pe_parameters or {}
        super().__init__(**kwargs)


class Pass:
    """The inputs that members read in one layer: positions of rows, the input of the attention, queries and keys."""

    def __init__(self, config, layer, x, parameters):
        model = config.pe_model
        self.layer, self.x, self.parameters = layer, x, parameters
        self.heads, self.groups = model["heads"], model["key_value_heads"]
        self.length = x.shape[1]
        rows = torch.arange(self.length, device=x.device)
        self.rows = rows
        self.distances = (rows[:, None] - rows[None, :]).clamp_min(0)
        self.scale = 1 / math.sqrt(model["head_width"])
        self.window = 0

    def parameter(self, kind, name):
        """One of the layer's own, or one that all layers share."""
        own = f"{kind}_{self.layer}_{name}"
        return self.parameters[own if own in self.parameters else f"{kind}_{name}"].float()

    def counts(self):
        """How many keys each row sees."""
        seen = self.rows.double() + 1
        return seen.clamp_max(self.window) if self.window > 0 else seen


def of_layer(member, layer):
    layers = member["layers"]
    return layers[layer if len(layers) > 1 else 0]


def rotate(member, p, q, k):
    own = of_layer(member, p.layer)
    if "first" not in own or not own["first"]:
        return q, k
    theta = torch.tensor(own["theta"], dtype=torch.float64, device=q.device).view(own["groups"], -1)
    angles = p.rows.double()[None, :, None] * theta[:, None, :]
    factor = member.get("factor", 1.0)
    cos, sin = (angles.cos() * factor).float(), (angles.sin() * factor).float()
    first, second = own["first"], own["second"]

    def turned(x):
        heads = x.shape[1] // own["groups"]
        c, s = cos.repeat_interleave(heads, 0), sin.repeat_interleave(heads, 0)
        a, b = x[..., first], x[..., second]
        out = x.clone()
        out[..., first] = a * c - b * s
        out[..., second] = a * s + b * c
        return out

    return turned(q), turned(k)


def pope(member, p, q, k):
    own = of_layer(member, p.layer)
    if "first" not in own:
        return q, k
    channels = len(own["first"])
    theta = torch.tensor(own["theta"], dtype=torch.float64, device=q.device)
    angles = p.rows.double()[:, None] * theta
    delta = p.parameter("pope", "delta").clamp(-2 * math.pi, 0)[:, None, :]

    def phased(x, cos, sin):
        size = F.softplus(x[..., :channels])
        return torch.cat([size * cos, size * sin, x[..., channels:]], -1)

    cos, sin = angles.cos().float(), angles.sin().float()
    if member["scale_dim"] == "2d":
        p.scale /= math.sqrt(2)
    return (phased(q, cos, sin),
            phased(k, cos * delta.cos() - sin * delta.sin(), sin * delta.cos() + cos * delta.sin()))


def temperature(member, p):
    """Factor of q, [heads or 1, rows or 1]; None: no factor."""
    kind = member["kind"]
    if kind == "ssmax":
        tau = p.parameter("ssmax", "s")[:, None] * p.counts().log().float()
        return tau + p.parameter("ssmax", "beta")[:, None] if member["offset"] else tau
    if kind == "logn":
        length = member["train_length"]
        mean = member["form"] == "mean"
        tau = p.counts().log() / (math.lgamma(length + 1) / length if mean else math.log(length))
        return (tau if mean else tau.clamp_min(1)).float()[None]
    if kind == "head_scale":
        return p.parameter("head_scale", "scale")[:, None]
    if kind == "uniform_scale":
        if member["learned"]:
            return p.parameter("uniform_scale", "scale").view(1, 1)
        return torch.full((1, 1), member["scale"], device=p.rows.device)
    if kind == "length_scale" and p.length > member["train_length"]:
        factor = 1 + member["slope"] * math.log(p.length / member["train_length"])
        return torch.full((1, 1), factor, device=p.rows.device)
    if kind == "inkling" and member["floor_scale"] > 0:
        return inkling_growth(member, p)[None]
    return None


def inkling_growth(member, p):
    grown = ((p.rows.double() + 1) / member["floor_scale"]).clamp_min(1).log()
    return (grown * member["alpha"] + 1).float()


def t5_buckets(member, length):
    exact, buckets = member["buckets"] // 2, member["buckets"]
    found = []
    for d in range(length):
        if d < exact:
            found.append(d)
        else:
            grown = math.log(d / exact) / math.log(member["max_distance"] / exact)
            found.append(min(buckets - 1, exact + int(grown * (buckets - exact))))
    return found


def fire(member, p):
    c = p.parameter("fire", "c")
    psi = lambda z: torch.log1p((c * z).abs())
    least = (p.parameter("fire", "length_multiplier") * member["initial_length"]).abs()
    x = psi(p.distances.float()) / (psi(torch.maximum(p.rows.float(), least))[:, None] + 1e-6)
    hidden = F.relu(x[..., None] * p.parameter("fire", "w1").view(-1) + p.parameter("fire", "b1"))
    return (hidden @ p.parameter("fire", "w2").T + p.parameter("fire", "b2")).permute(2, 0, 1)


def fox(member, p):
    if member["gate"] == "data":
        scores = p.x.float() @ p.parameter("fox", "weight").T + p.parameter("fox", "bias")
        sums = F.logsigmoid(scores).cumsum(1).transpose(1, 2)
    else:
        if member["gate"] == "fixed":
            ends = math.log(member["shortest"]), math.log(member["longest"])
            tau = torch.exp(torch.linspace(*ends, p.heads, dtype=torch.float64, device=p.rows.device))
            bias = (-torch.log(torch.expm1(1 / tau))).float()
        else:
            bias = p.parameter("fox", "bias")
        sums = (F.logsigmoid(bias)[:, None] * (p.rows + 1))[None]
    return sums[..., :, None] - sums[..., None, :]


def inkling(member, p):
    mixed = (p.x.float() @ p.parameter("inkling", "mix").T).unflatten(-1, (p.heads, member["profiles"])).transpose(1, 2)
    by_distance = mixed @ p.parameter("inkling", "bank")
    if member["floor_scale"] > 0:
        by_distance = by_distance * inkling_growth(member, p)[None, None, :, None]
    extent = by_distance.shape[-1]
    padded = F.pad(by_distance, (0, 1))
    index = p.distances.clamp_max(extent).expand(padded.shape[0], padded.shape[1], -1, -1)
    return padded.gather(-1, index)


def bias(member, p, q):
    """Term that is added to logits, broadcast to [batch, heads, rows, keys]; None: no term."""
    kind, d = member["kind"], p.distances
    if kind in ("alibi", "nape"):
        return -torch.tensor(member["slopes"], dtype=torch.float32, device=d.device)[:, None, None] * d.float()
    if kind == "t5":
        table = p.parameter("t5", "table")[t5_buckets(member, p.length)]
        return table.T[:, d]
    if kind in ("kerple_log", "kerple_power"):
        a, power = p.parameter(kind, "a")[:, None], p.parameter(kind, "p")[:, None]
        z = p.rows.float()
        return (-power * torch.log1p(a * z) if kind == "kerple_log" else -a * torch.pow(z, power))[:, d]
    if kind == "sandwich":
        half = member["width"] // 2
        k = torch.arange(1, half + 1, dtype=torch.float64, device=d.device)
        sums = torch.cos(p.rows.double()[:, None] * torch.exp(k * (-2 * math.log(10000.0) / member["width"]))).sum(1) - half
        head = torch.arange(1, p.heads + 1, dtype=torch.float64, device=d.device) * (8.0 / p.heads)
        return (sums[None] / head[:, None]).float()[:, d]
    if kind == "shaw":
        table = p.parameter("shaw", "key_table")
        if table.dim() == 3:
            table = table.repeat_interleave(p.heads // table.shape[0], 0)
        scores = (q * p.scale) @ table.transpose(-1, -2)
        return scores.gather(-1, d.clamp_max(member["max_distance"]).expand(*scores.shape[:2], -1, -1))
    if kind == "fire":
        return fire(member, p)
    if kind == "fox":
        return fox(member, p)
    if kind == "inkling":
        return inkling(member, p)
    return None


def cope(member, p, logits, visible, q, raw_q, raw_k):
    gate_logits = logits if member["gates"] == "rot" else raw_q @ raw_k.transpose(-1, -2) * p.scale
    gates = torch.sigmoid(gate_logits).masked_fill(~visible, 0)
    last = member["positions"] - 1
    count = gates.flip(-1).cumsum(-1).flip(-1).clamp_max(last)
    low = count.floor()
    weight = count - low
    z = (raw_q if member["z"] == "raw" else q) @ p.parameter("cope", "table")
    at = lambda index: z.gather(-1, index.long().clamp_max(last))
    added = weight * at(low + 1) + (1 - weight) * at(low)
    return logits + (added * p.scale if member["cope_div"] else added)


def add_to_tokens(members, parameters, x):
    rows = torch.arange(x.shape[1], device=x.device)
    for member in members:
        kind = member["kind"]
        if kind == "sinusoidal":
            theta = torch.tensor(member["theta"], dtype=torch.float64, device=x.device)
            angles = rows.double()[:, None] * theta
            sin, cos = angles.sin().float(), angles.cos().float()
            added = torch.stack([sin, cos], -1).flatten(-2) if member["layout"] == "interleaved" else torch.cat([sin, cos], -1)
        elif kind == "learned":
            table = parameters["learned_table"]
            if x.shape[1] > table.shape[0] and member["overflow"] != "clamp":
                raise ValueError(f"{x.shape[1]} tokens, and the table of positions has {table.shape[0]} rows")
            added = table[rows.clamp_max(table.shape[0] - 1)].float()
        else:
            continue
        scale = parameters[f"{kind}_scale"].float() if f"{kind}_scale" in parameters else member["scale"]
        x = (x.float() + added * scale).to(x.dtype)
    return x


class Norm(nn.Module):
    def __init__(self, model, width, kind=None):
        super().__init__()
        self.layer_norm = (kind or model.get("norm", "rms")) == "layer"
        self.eps = model["norm_eps"]
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if self.layer_norm and model.get("biases", False) else None

    def forward(self, x):
        wide = x.float()
        if self.layer_norm:
            bias = None if self.bias is None else self.bias.float()
            return F.layer_norm(wide, wide.shape[-1:], self.weight.float(), bias, self.eps).to(x.dtype)
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


class Attention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        model = config.pe_model
        d, h = model["width"], model["head_width"]
        heads, groups, biased = model["heads"], model["key_value_heads"], model.get("biases", False)
        self.config, self.layer = config, layer
        self.q_proj, self.k_proj = nn.Linear(d, heads * h, bias=biased), nn.Linear(d, groups * h, bias=biased)
        self.v_proj, self.o_proj = nn.Linear(d, groups * h, bias=biased), nn.Linear(heads * h, d, bias=biased)
        self.gate = model.get("gate", "none")
        if self.gate != "none":
            self.gate_proj = nn.Linear(d, heads if self.gate == "headwise" else heads * h, bias=False)
        self.normed, self.together = model["qk_norm"], model.get("qk_norm_over", "head") == "width"
        if self.normed:
            self.q_norm = Norm(model, heads * h if self.together else h, "rms")
            self.k_norm = Norm(model, groups * h if self.together else h, "rms")

    def split(self, x, norm):
        h = self.config.pe_model["head_width"]
        if norm is not None and self.together:
            x = norm(x)
        x = x.unflatten(-1, (-1, h))
        if norm is not None and not self.together:
            x = norm(x)
        return x.transpose(1, 2)

    def forward(self, x, parameters):
        model, members = self.config.pe_model, self.config.pe_members
        p = Pass(self.config, self.layer, x, parameters)
        windows = [of_layer(m, self.layer).get("window", 0) for m in members if "layers" in m]
        p.window = min([w for w in windows if w > 0], default=0)
        q = self.split(self.q_proj(x), self.q_norm if self.normed else None).float()
        k = self.split(self.k_proj(x), self.k_norm if self.normed else None).float()
        v = self.split(self.v_proj(x), None).float()
        repeat = p.heads // p.groups
        raw_q, raw_k = q, k.repeat_interleave(repeat, 1)
        for member in members:
            if member["kind"] == "rotation":
                q, k = rotate(member, p, q, k)
            if member["kind"] == "pope":
                q, k = pope(member, p, q, k)
        for member in members:
            tau = temperature(member, p)
            if tau is not None:
                q = q * tau[..., None]
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
        logits = q @ k.transpose(-1, -2) * p.scale
        visible = p.rows[:, None] >= p.rows[None, :]
        if p.window > 0:
            visible = visible & (p.distances < p.window)
        for member in members:
            added = bias(member, p, q)
            if added is not None:
                logits = logits + added
        for member in members:
            if member["kind"] == "cope":
                logits = cope(member, p, logits, visible, q, raw_q, raw_k)
        out = self.mix(logits.masked_fill(~visible, -math.inf), v, p)
        if self.gate != "none":
            opened = torch.sigmoid(self.gate_proj(x).float())
            opened = opened.transpose(1, 2)[..., None] if self.gate == "headwise" else self.split(opened, None)
            out = out * opened
        return self.o_proj(out.transpose(1, 2).flatten(2).to(x.dtype))

    def mix(self, logits, v, p):
        sink = None
        for member in self.config.pe_members:
            if member["kind"] == "sink_logit":
                sink = p.parameter("sink_logit", "sink")
            if member["kind"] == "sink_off_by_one":
                sink = torch.zeros(p.heads, device=logits.device)
        if sink is None:
            weights = torch.softmax(logits, -1)
        else:
            column = sink[None, :, None, None].expand(logits.shape[0], -1, logits.shape[2], 1)
            weights = torch.softmax(torch.cat([logits, column], -1), -1)[..., :-1]
        out = weights @ v
        for member in self.config.pe_members:
            if member["kind"] == "shaw" and member["values"]:
                table = p.parameter("shaw", "value_table")
                if table.dim() == 3:
                    table = table.repeat_interleave(p.heads // table.shape[0], 0)
                near = p.distances.clamp_max(member["max_distance"]).expand(*weights.shape[:2], -1, -1)
                sums = torch.zeros(*weights.shape[:3], member["max_distance"] + 1, device=weights.device)
                out = out + sums.scatter_add(-1, near, weights) @ table
        return out


class FeedForward(nn.Module):
    def __init__(self, model):
        super().__init__()
        d, inner, biased = model["width"], model["feed_forward"], model.get("biases", False)
        self.kind = model.get("activation", "swiglu")
        if self.kind == "swiglu":
            self.gate_proj = nn.Linear(d, inner, bias=biased)
        self.up_proj, self.down_proj = nn.Linear(d, inner, bias=biased), nn.Linear(inner, d, bias=biased)

    def forward(self, x):
        up = self.up_proj(x)
        if self.kind == "swiglu":
            return self.down_proj(F.silu(self.gate_proj(x)) * up)
        if self.kind == "relu":
            return self.down_proj(F.relu(up))
        return self.down_proj(F.gelu(up, approximate="tanh" if self.kind == "gelu_tanh" else "none"))


class Layer(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        model = config.pe_model
        self.post = model.get("norm_placement", "pre") == "post"
        self.self_attn, self.mlp = Attention(config, layer), FeedForward(model)
        self.input_layernorm, self.post_attention_layernorm = Norm(model, model["width"]), Norm(model, model["width"])

    def forward(self, x, parameters):
        if self.post:
            x = self.input_layernorm(x + self.self_attn(x, parameters))
            return self.post_attention_layernorm(x + self.mlp(x))
        x = x + self.self_attn(self.input_layernorm(x), parameters)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        model = config.pe_model
        self.config = config
        self.embed_tokens = nn.Embedding(model["vocabulary"], model["width"])
        self.encoding = nn.ParameterDict({n: nn.Parameter(torch.zeros(s)) for n, s in config.pe_parameters.items()})
        self.layers = nn.ModuleList([Layer(config, i) for i in range(model["layers"])])
        self.norm = Norm(model, model["width"]) if model.get("norm_placement", "pre") == "pre" else nn.Identity()

    def forward(self, ids):
        x = self.embed_tokens(ids) * self.config.pe_model["embed_scale"]
        x = add_to_tokens(self.config.pe_members, self.encoding, x)
        for layer in self.layers:
            x = layer(x, self.encoding)
        return self.norm(x)


class PePipelineForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = PePipelineConfig
    base_model_prefix = "model"

    def __init__(self, config):
        super().__init__(config)
        model = config.pe_model
        self.model = Decoder(config)
        self.tied = model["tied"]
        if not self.tied:
            self.lm_head = nn.Linear(model["width"], model["vocabulary"], bias=model.get("head_bias", False))
        elif model.get("head_bias", False):
            self.lm_head = nn.Module()
            self.lm_head.bias = nn.Parameter(torch.zeros(model["vocabulary"]))
        self.post_init()

    def _init_weights(self, module):
        """Weights come from the file."""

    def get_input_embeddings(self):
        return self.model.embed_tokens

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **kwargs):
        return {"input_ids": input_ids, "attention_mask": attention_mask}

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        if attention_mask is not None and not bool(attention_mask.all()):
            raise ValueError("padding is not supported: give texts of one length, or one at a time")
        hidden = self.model(input_ids)
        model = self.config.pe_model
        if self.tied:
            bias = self.lm_head.bias if model.get("head_bias", False) else None
            logits = F.linear(hidden, self.model.embed_tokens.weight, bias)
        else:
            logits = self.lm_head(hidden)
        cap = model.get("logit_softcap", 0)
        if cap:
            logits = cap * torch.tanh(logits / cap)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)
