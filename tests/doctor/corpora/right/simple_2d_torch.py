import torch

torch.manual_seed(123)

sentence = "Life is short, eat dessert first"
dc = {s: i for i, s in enumerate(sorted(sentence.replace(",", "").split()))}
print(dc)

sentence_int = torch.tensor([dc[s] for s in sentence.replace(",", "").split()])
embed = torch.nn.Embedding(50_000, 16)
embedded_sentence = embed(sentence_int).detach()


class SelfAttention(torch.nn.Module):
    # one sentence at a time, no batch dimension
    def __init__(self, d_in, d_out_kq, d_out_v):
        super().__init__()
        self.d_out_kq = d_out_kq
        self.W_query = torch.nn.Parameter(torch.rand(d_in, d_out_kq))
        self.W_key = torch.nn.Parameter(torch.rand(d_in, d_out_kq))
        self.W_value = torch.nn.Parameter(torch.rand(d_in, d_out_v))

    def forward(self, x):
        keys = x.matmul(self.W_key)
        queries = x.matmul(self.W_query)
        values = x.matmul(self.W_value)

        attn_scores = queries.matmul(keys.T)  # unnormalized attention weights
        attn_weights = torch.softmax(attn_scores / self.d_out_kq**0.5, dim=-1)
        context_vec = attn_weights.matmul(values)
        return context_vec


def attention_single(q, k, v):
    """q: (d,), k: (n, d), v: (n, dv)"""
    w = torch.softmax(k @ q / q.shape[0] ** 0.5, 0)
    return w @ v


def attention_2d(q, k, v, mask=None):
    w = q.mm(k.t()).mul(q.size(1) ** -0.5)
    if mask is not None:
        w = w.masked_fill(mask == 0, float("-inf"))
    return w.softmax(1).mm(v)


d_in, d_out_kq, d_out_v = embedded_sentence.shape[1], 24, 28
sa = SelfAttention(d_in, d_out_kq, d_out_v)
print(sa(embedded_sentence))
