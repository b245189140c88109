import torch


class PagedKV:
    def __init__(self, n_blocks, block_size, heads, d):
        self.k = torch.zeros(n_blocks, block_size, heads, d)
        self.v = torch.zeros(n_blocks, block_size, heads, d)
        self.block_size = block_size
        self.free = list(range(n_blocks))[::-1]
        self.table, self.length = {}, {}

    def append(self, seq, k, v):                      # k v (heads, d)
        n = self.length.get(seq, 0)
        if n % self.block_size == 0:                  # need a new page
            self.table.setdefault(seq, []).append(self.free.pop())
        page, slot = self.table[seq][n // self.block_size], n % self.block_size
        self.k[page, slot], self.v[page, slot] = k, v
        self.length[seq] = n + 1

    def gather(self, seq):
        pages, n = self.table[seq], self.length[seq]
        return self.k[pages].flatten(0, 1)[:n], self.v[pages].flatten(0, 1)[:n]


def decode(cache, seq, q):
    """q (heads, d): attends over everything stored for this sequence"""
    k, v = cache.gather(seq)                          # (n, heads, d)
    s = torch.einsum('hd,nhd->hn', q, k) / q.shape[-1] ** 0.5
    return torch.einsum('hn,nhd->hd', s.softmax(dim=-1), v)


if __name__ == '__main__':
    c = PagedKV(8, 3, 2, 4)
    for t in range(5):
        for seq in ('a', 'b'):
            c.append(seq, torch.randn(2, 4), torch.randn(2, 4))
    print(decode(c, 'a', torch.randn(2, 4)).shape, c.table)
