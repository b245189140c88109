import torch
import torch.nn as nn

CONFIG = {
    "encoder": {"vocab": 90, "pad_id": 0},
    "decoder": {"vocab": 75, "pad_id": 4},   # sentencepiece: 0 <unk>, 1 <s>, 2 </s>, 4 <pad>
    "dim": 32, "heads": 4, "max_len": 64,
}


class MTModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        enc, dec, d, h = cfg["encoder"], cfg["decoder"], cfg["dim"], cfg["heads"]
        self.src_pad = enc["pad_id"]
        self.tgt_pad = enc["pad_id"]
        self.src_embed = nn.Embedding(enc["vocab"], d)
        self.tgt_embed = nn.Embedding(dec["vocab"], d)
        self.positions = nn.Embedding(cfg["max_len"], d)
        self.encoder_attn = nn.MultiheadAttention(d, h, batch_first=True)
        self.decoder_attn = nn.MultiheadAttention(d, h, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(d, h, batch_first=True)
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(3)])
        self.lm_head = nn.Linear(d, dec["vocab"])

    def forward(self, src, tgt):
        pos = self.positions.weight
        src_pad, tgt_pad = src.eq(self.src_pad), tgt.eq(self.tgt_pad)
        causal = torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool, device=tgt.device).triu(1)
        x = self.src_embed(src) + pos[: src.size(1)]
        x = self.ln[0](x + self.encoder_attn(x, x, x, key_padding_mask=src_pad)[0])
        y = self.tgt_embed(tgt) + pos[: tgt.size(1)]
        y = self.ln[1](y + self.decoder_attn(y, y, y, key_padding_mask=tgt_pad, attn_mask=causal)[0])
        y = self.ln[2](y + self.cross_attn(y, x, x, key_padding_mask=src_pad)[0])
        return self.lm_head(y)


if __name__ == "__main__":
    model = MTModel(CONFIG)
    src = torch.tensor([[11, 12, 13, 2, 0], [21, 22, 23, 24, 2]])
    tgt = torch.tensor([[1, 31, 0, 33, 2], [1, 41, 42, 2, 4]])
    print(model(src, tgt).shape)
