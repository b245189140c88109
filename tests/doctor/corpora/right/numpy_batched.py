"""Attention in pure numpy, for people who want to see every step."""

import numpy as np

NEG_INF = -1e9


def scaled_dot_product_attention(query, key, value, mask=None, return_weights=True):
    """
    Parameters
    ----------
    query : np.ndarray, shape (..., seq_len_q, depth)
    key   : np.ndarray, shape (..., seq_len_k, depth)
    value : np.ndarray, shape (..., seq_len_k, depth_v)
    mask  : np.ndarray, broadcastable to (..., seq_len_q, seq_len_k), 1 = masked out

    Returns
    -------
    output, attention_weights
    """
    matmul_qk = np.matmul(query, np.swapaxes(key, -1, -2))
    dk = np.float64(key.shape[-1])
    logits = matmul_qk / np.sqrt(dk)
    if mask is not None:
        logits = logits + (mask * NEG_INF)
    logits -= logits.max(axis=-1, keepdims=True)
    weights = np.exp(logits)
    weights /= np.sum(weights, axis=-1, keepdims=True)
    output = np.matmul(weights, value)
    if return_weights:
        return output, weights
    return output


def create_look_ahead_mask(size):
    return 1 - np.tril(np.ones((size, size)))


def positional_encoding(position, d_model):
    def get_angles(pos, i, d_model):
        angle_rates = 1 / np.power(10000, (2 * (i // 2)) / np.float32(d_model))
        return pos * angle_rates

    angle_rads = get_angles(np.arange(position)[:, np.newaxis], np.arange(d_model)[np.newaxis, :], d_model)
    # apply sin to even indices in the array; 2i
    angle_rads[:, 0::2] = np.sin(angle_rads[:, 0::2])
    # apply cos to odd indices in the array; 2i+1
    angle_rads[:, 1::2] = np.cos(angle_rads[:, 1::2])
    return angle_rads[np.newaxis, ...]


if __name__ == "__main__":
    q = np.random.rand(2, 3, 4)
    o, w = scaled_dot_product_attention(q, q, q, create_look_ahead_mask(3))
    print(w.round(3))
