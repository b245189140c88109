import math
import torch
import torch.nn as nn


class SelfAttentionLayer(nn.Module):
    def __init__(self, input_size, attention_size):
        super().__init__()
        self.W_query = nn.Linear(input_size, attention_size)
        self.W_key = nn.Linear(input_size, attention_size)
        self.W_value = nn.Linear(input_size, attention_size)
        self.softmax = nn.Softmax()
        self.attention_size = attention_size

    def forward(self, x):
        # x: batch_size x seq_len x input_size
        query = self.W_query(x)
        key = self.W_key(x)
        value = self.W_value(x)
        scores = torch.matmul(query, key.permute(0, 2, 1)) / math.sqrt(self.attention_size)
        attention = self.softmax(scores)
        return torch.matmul(attention, value)


class SentimentClassifier(nn.Module):
    def __init__(self, vocab=100, emb=32, classes=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.attn = SelfAttentionLayer(emb, emb)
        self.fc = nn.Linear(emb, classes)

    def forward(self, ids):
        return self.fc(self.attn(self.emb(ids)).mean(dim=1))


if __name__ == "__main__":
    print(SentimentClassifier()(torch.randint(0, 100, (4, 12))).shape)
