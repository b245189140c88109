import torch

def retention(q, k, v, gamma, state=None):
    """Recurrent; returns the output and the state to go on from. (B, H, N, D)"""
    B, H, N, D = q.shape
    if state is None:
        state = torch.zeros(B, H, D, v.shape[-1], dtype=q.dtype)
    ys = []
    for n in range(N):
        state = gamma * state + k[:, :, n, :, None] * v[:, :, n, None, :]
        ys.append(torch.einsum("bhd,bhdv->bhv", q[:, :, n], state))
    return torch.stack(ys, dim=2), state
