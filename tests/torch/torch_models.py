"""Real `transformers` modules from tiny configurations, with random weights: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf
from torch import nn
from torch.export import Dim
from torch_bench import Bench

bench = Bench()

batch = Dim("batch", min=1, max=64)
seq = Dim("seq", min=1, max=128)


def tokens(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


def made(kind: Any, config: Any) -> Any:
    """A model without weights from anywhere, ready to export."""
    config._attn_implementation = "eager"
    return kind(config).eval()


@bench.add(
    lambda: (tokens(2, 10), tokens(2, 10) + 1), {"ids": {0: batch, 1: seq}, "mask": {0: batch, 1: seq}}
)
class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = hf.BertConfig(
            vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
            max_position_embeddings=128,
        )  # fmt: skip
        self.model = made(hf.BertModel, config)

    def forward(self, ids, mask):
        return self.model(ids, attention_mask=mask).last_hidden_state


def cache_of(layers: int, heads: int, width: int) -> list[torch.Tensor]:
    return [torch.zeros(2, heads, 6, width) for _ in range(2 * layers)]


def cached(model: Any, ids: Any, mask: Any, past: Any) -> tuple[Any, ...]:
    """One step of a decoder with its cache as plain tensors."""
    cache = hf.DynamicCache(ddp_cache_data=[(k, v) for k, v in zip(past[::2], past[1::2])])
    out = model(ids, attention_mask=mask, past_key_values=cache, use_cache=True)
    layers = out.past_key_values.layers
    return out.logits, *(t for layer in layers for t in (layer.keys, layer.values))


# total == past + new cannot be expressed in named dims: sizes of a cache are left to torch.export
CACHED = {
    "ids": {0: batch, 1: Dim.DYNAMIC(max=60)},
    "mask": {0: batch, 1: Dim.DYNAMIC(max=120)},
    "past": [{0: batch, 2: Dim.DYNAMIC(max=60)} for _ in range(4)],
}


@bench.add(lambda: (tokens(2, 3), tokens(2, 9) + 1, cache_of(2, 4, 8)), CACHED)
class Gpt2WithCache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = hf.GPT2Config(vocab_size=99, n_positions=128, n_embd=32, n_layer=2, n_head=4)
        self.model = made(hf.GPT2LMHeadModel, config)

    def forward(self, ids, mask, past):
        return cached(self.model, ids, mask, past)


@bench.add(lambda: (tokens(2, 3), tokens(2, 9) + 1, cache_of(2, 2, 8)), CACHED)
class LlamaWithCache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = hf.LlamaConfig(
            vocab_size=99, hidden_size=32, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=128,
        )  # fmt: skip
        self.model = made(hf.LlamaForCausalLM, config)

    def forward(self, ids, mask, past):
        return cached(self.model, ids, mask, past)


@bench.add(lambda: (torch.zeros(2, 3, 30, 30),), {"pixels": {0: batch}})
class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = hf.ViTConfig(
            image_size=30,
            patch_size=6,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=37,
        )
        self.model = made(hf.ViTModel, config)

    def forward(self, pixels):
        return self.model(pixels).last_hidden_state


@bench.add(lambda: (torch.zeros(2, 16, 60),), {"features": {0: batch}})
class WhisperEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = hf.WhisperConfig(
            vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, num_mel_bins=16, max_source_positions=30,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        )  # fmt: skip
        self.encoder = made(hf.WhisperModel, config).encoder

    def forward(self, features):
        return self.encoder(features).last_hidden_state


@bench.add(
    lambda: (tokens(2, 10), tokens(2, 10) + 1, tokens(2, 7)),
    {
        "ids": {0: batch, 1: seq},
        "mask": {0: batch, 1: seq},
        "decoder_ids": {0: batch, 1: Dim("out", min=1, max=128)},
    },
)
class T5(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = hf.T5Config(
            vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, decoder_start_token_id=0
        )
        self.model = made(hf.T5ForConditionalGeneration, config)

    def forward(self, ids, mask, decoder_ids):
        return self.model(ids, attention_mask=mask, decoder_input_ids=decoder_ids, use_cache=False).logits


@bench.add(
    lambda: (tokens(2, 9), tokens(2, 9) + 1, torch.zeros(3, 3, 30, 30)),
    {"ids": {0: batch, 1: Dim("words", min=1, max=20)}, "mask": {0: batch, 1: Dim("words", min=1, max=20)},
     "pixels": {0: Dim("images", min=1, max=64)}},
)  # fmt: skip
class Clip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        text = {
            "vocab_size": 99, "hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "eos_token_id": 2,
            "num_attention_heads": 4, "max_position_embeddings": 20,
        }  # fmt: skip
        vision = {
            "hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 4,
            "image_size": 30, "patch_size": 6,
        }  # fmt: skip
        config = hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
        self.model = made(hf.CLIPModel, config)

    def forward(self, ids, mask, pixels):
        out = self.model(input_ids=ids, attention_mask=mask, pixel_values=pixels)
        return out.logits_per_image, out.text_embeds


@bench.add(lambda: (torch.zeros(2, 3, 64, 64),), {"pixels": {0: batch}})
class MobileVit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = hf.MobileViTConfig(
            image_size=64,
            hidden_sizes=[16, 20, 24],
            neck_hidden_sizes=[8, 8, 12, 16, 16, 16, 32],
            num_attention_heads=2,
        )
        self.model = made(hf.MobileViTModel, config)

    def forward(self, pixels):
        return self.model(pixels).last_hidden_state


@bench.add(lambda: (torch.zeros(2, 3, 32, 32),), {"pixels": {0: batch}})
class Swin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = hf.SwinConfig(
            image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4
        )
        self.model = made(hf.SwinModel, config)

    def forward(self, pixels):
        return self.model(pixels).last_hidden_state


@bench.add(
    lambda: (tokens(2, 10), tokens(2, 10) + 1), {"ids": {0: batch, 1: seq}, "mask": {0: batch, 1: seq}}
)
class Deberta(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = hf.DebertaV2Config(
            vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
            max_position_embeddings=128, relative_attention=True, position_buckets=16, pos_att_type=["p2c", "c2p"],
        )  # fmt: skip
        self.model = made(hf.DebertaV2Model, config)

    def forward(self, ids, mask):
        return self.model(ids, attention_mask=mask).last_hidden_state


@bench.add(lambda: (tokens(2, 10),), {"ids": {0: batch}})
class Mamba(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = hf.MambaConfig(vocab_size=99, hidden_size=32, state_size=8, num_hidden_layers=2)
        self.model = made(hf.MambaModel, config)

    def forward(self, ids):
        return self.model(ids, use_cache=False).last_hidden_state


@bench.add(lambda: (torch.zeros(2, 3, 64, 96),), {"pixels": {0: batch}})
class Segformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = hf.SegformerConfig(
            hidden_sizes=[8, 16, 16, 32],
            depths=[1, 1, 1, 1],
            num_attention_heads=[1, 2, 2, 4],
            decoder_hidden_size=16,
        )
        self.model = made(hf.SegformerForSemanticSegmentation, config)

    def forward(self, pixels):
        return self.model(pixels).logits
