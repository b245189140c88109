import torch
import torch.nn.functional as F


def tree_mask(parents, prompt_len):
    """parents[i] = index of the parent draft node, -1 = root hangs on the prompt. True = may look."""
    n = len(parents)
    m = torch.zeros(n, prompt_len + n, dtype=torch.bool)
    m[:, :prompt_len] = True
    for i in range(n):
        j = i
        while j != -1:
            m[i, prompt_len + j] = True
            j = parents[j]
    return m


def verify(q, k_prompt, v_prompt, k_tree, v_tree, parents):
    """q k_tree v_tree (B, H, n, D); prompt (B, H, p, D)"""
    k = torch.cat([k_prompt, k_tree], dim=2)
    v = torch.cat([v_prompt, v_tree], dim=2)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=tree_mask(parents, k_prompt.size(2)))


print(tree_mask([-1, 0, 0, 1], 2).int())
