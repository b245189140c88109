import numpy as np


def positional_encoding(length, depth):
    """Returns the (length, depth) table of sinusoids of "Attention is all you need"."""
    PE = np.zeros((length, depth))
    for pos in range(length):
        for i in range(depth):
            if i % 2 == 0:
                PE[pos, i] = np.sin(pos / 10000 ** (i / depth))
            else:
                PE[pos, i] = np.cos(pos / 10000 ** ((i + 1) / depth))
    return PE


if __name__ == "__main__":
    print(positional_encoding(4, 6).round(3))
