import torch
import torch.nn as nn


class MultiHeadAttentionLayer(nn.Module):
    def __init__(self, hid_dim, n_heads, dropout):
        super().__init__()
        self.hid_dim, self.n_heads, self.head_dim = hid_dim, n_heads, hid_dim // n_heads
        self.fc_q = nn.Linear(hid_dim, hid_dim)
        self.fc_k = nn.Linear(hid_dim, hid_dim)
        self.fc_v = nn.Linear(hid_dim, hid_dim)
        self.fc_o = nn.Linear(hid_dim, hid_dim)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("scale", torch.sqrt(torch.FloatTensor([self.head_dim])))

    def forward(self, query, key, value, mask=None):
        batch_size = query.shape[0]
        Q = self.fc_q(query).view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        K = self.fc_k(key).view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        V = self.fc_v(value).view(batch_size, -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / self.scale
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        attention = torch.softmax(energy, dim=-1)
        x = torch.matmul(self.dropout(attention), V)
        x = x.permute(0, 2, 1, 3).contiguous().view(batch_size, -1, self.hid_dim)
        return self.fc_o(x), attention


class DecoderLayer(nn.Module):
    def __init__(self, hid, heads, pf, dropout):
        super().__init__()
        self.ln1, self.ln2, self.ln3 = nn.LayerNorm(hid), nn.LayerNorm(hid), nn.LayerNorm(hid)
        self.self_attention = MultiHeadAttentionLayer(hid, heads, dropout)
        self.encoder_attention = MultiHeadAttentionLayer(hid, heads, dropout)
        self.ff = nn.Sequential(nn.Linear(hid, pf), nn.ReLU(), nn.Dropout(dropout), nn.Linear(pf, hid))
        self.dropout = nn.Dropout(dropout)

    def forward(self, trg, enc_src, trg_mask, src_mask):
        _trg, _ = self.self_attention(trg, trg, trg, trg_mask)
        trg = self.ln1(trg + self.dropout(_trg))
        _trg, attention = self.encoder_attention(trg, enc_src, enc_src, src_mask)
        trg = self.ln2(trg + self.dropout(_trg))
        return self.ln3(trg + self.dropout(self.ff(trg))), attention


class Seq2Seq(nn.Module):
    def __init__(self, src_vocab=20, trg_vocab=22, hid=40, heads=5, src_pad_idx=1, trg_pad_idx=1):
        super().__init__()
        self.src_pad_idx, self.trg_pad_idx = src_pad_idx, trg_pad_idx
        self.src_emb, self.trg_emb = nn.Embedding(src_vocab, hid), nn.Embedding(trg_vocab, hid)
        self.pos = nn.Embedding(50, hid)
        self.dec = DecoderLayer(hid, heads, 64, 0.1)
        self.out = nn.Linear(hid, trg_vocab)

    def make_src_mask(self, src):
        return (src != self.src_pad_idx).unsqueeze(1).unsqueeze(2)  # [batch, 1, 1, src len]

    def make_trg_mask(self, trg):
        trg_pad_mask = (trg != self.trg_pad_idx).unsqueeze(1).unsqueeze(2)
        trg_len = trg.shape[1]
        trg_sub_mask = torch.tril(torch.ones((trg_len, trg_len), device=trg.device)).bool()
        return trg_pad_mask & trg_sub_mask

    def forward(self, src, trg):
        enc = self.src_emb(src) + self.pos(torch.arange(src.shape[1]))  # (encoder left out in this excerpt)
        x = self.trg_emb(trg) + self.pos(torch.arange(trg.shape[1]))
        x, attention = self.dec(x, enc, self.make_trg_mask(trg), self.make_src_mask(src))
        return self.out(x), attention
