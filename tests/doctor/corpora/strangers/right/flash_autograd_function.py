import torch


class FlashAttn(torch.autograd.Function):
    """softmax(q k^T / sqrt(d)) v, only O and the log-sum-exp are saved"""

    @staticmethod
    def forward(ctx, q, k, v, block=16):
        scale = q.shape[-1] ** -0.5
        m = torch.full(q.shape[:-1] + (1,), float('-inf'), dtype=q.dtype, device=q.device)
        l = torch.zeros_like(m)
        o = q.new_zeros(q.shape[:-1] + (v.shape[-1],))
        for kb, vb in zip(k.split(block, -2), v.split(block, -2)):
            s = q @ kb.transpose(-1, -2) * scale
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            p, a = torch.exp(s - new), torch.exp(m - new)
            l = l * a + p.sum(-1, keepdim=True)
            o = o * a + p @ vb
            m = new
        o = o / l
        ctx.save_for_backward(q, k, v, o, m + torch.log(l))
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        scale = q.shape[-1] ** -0.5
        p = torch.exp(q @ k.transpose(-1, -2) * scale - lse)
        dv = p.transpose(-1, -2) @ do
        ds = p * (do @ v.transpose(-1, -2) - (do * o).sum(-1, keepdim=True)) * scale
        return ds @ k, ds.transpose(-1, -2) @ q, dv, None


def flash_attn(q, k, v, block=16):
    return FlashAttn.apply(q, k, v, block)


if __name__ == '__main__':
    t = [torch.randn(1, 2, 6, 4, dtype=torch.double, requires_grad=True) for _ in range(3)]
    print(torch.autograd.gradcheck(lambda *a: flash_attn(*a, 4), t))
