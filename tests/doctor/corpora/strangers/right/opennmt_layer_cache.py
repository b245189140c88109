import math
import torch
import torch.nn as nn


class MultiHeadedAttention(nn.Module):
    def __init__(self, head_count, model_dim, dropout=0.1):
        assert model_dim % head_count == 0
        self.dim_per_head = model_dim // head_count
        super(MultiHeadedAttention, self).__init__()
        self.head_count = head_count
        self.linear_keys = nn.Linear(model_dim, head_count * self.dim_per_head)
        self.linear_values = nn.Linear(model_dim, head_count * self.dim_per_head)
        self.linear_query = nn.Linear(model_dim, head_count * self.dim_per_head)
        self.softmax = nn.Softmax(dim=-1)
        self.dropout = nn.Dropout(dropout)
        self.final_linear = nn.Linear(model_dim, model_dim)

    def forward(self, key, value, query, mask=None, layer_cache=None, attn_type="self"):
        batch_size = key.size(0)

        def shape(x):
            return x.view(batch_size, -1, self.head_count, self.dim_per_head).transpose(1, 2)

        def unshape(x):
            return x.transpose(1, 2).contiguous().view(batch_size, -1, self.head_count * self.dim_per_head)

        query = shape(self.linear_query(query))
        if layer_cache is not None and attn_type == "context" and layer_cache.get("memory_keys") is not None:
            key, value = layer_cache["memory_keys"], layer_cache["memory_values"]
        else:
            key, value = shape(self.linear_keys(key)), shape(self.linear_values(value))
            if layer_cache is not None and attn_type == "self":
                if layer_cache.get("self_keys") is not None:
                    key = torch.cat((layer_cache["self_keys"], key), dim=2)
                    value = torch.cat((layer_cache["self_values"], value), dim=2)
                layer_cache["self_keys"], layer_cache["self_values"] = key, value
            elif layer_cache is not None:
                layer_cache["memory_keys"], layer_cache["memory_values"] = key, value

        query = query / math.sqrt(self.dim_per_head)
        scores = torch.matmul(query, key.transpose(2, 3)).float()
        if mask is not None:
            mask = mask.unsqueeze(1)  # [B, 1, 1 or Q, K]
            scores = scores.masked_fill(mask, -1e18)
        attn = self.softmax(scores).to(query.dtype)
        context = unshape(torch.matmul(self.dropout(attn), value))
        return self.final_linear(context), attn
