"""Add additive attention to a GRU decoder, which then learns to reverse sequences."""

import torch
from torch import nn

from regard import AdditiveAttention, padding

SIZE, WIDTH, LENGTH = 11, 32, 6  # token 10 starts a sequence


class Decoder(nn.Module):
    """A GRU that reads the last token and what it attends to."""

    def __init__(self):
        super().__init__()
        self.embed, self.gru = nn.Embedding(SIZE, WIDTH), nn.GRUCell(2 * WIDTH, WIDTH)
        self.attend, self.output = AdditiveAttention(WIDTH), nn.Linear(2 * WIDTH, SIZE)

    def forward(self, token, state, encoded, lengths):
        context, weights = self.attend(state, encoded, mask=padding(lengths))  # (b,m), (b,k)
        state = self.gru(torch.cat([self.embed(token), context], dim=-1), state)
        return self.output(torch.cat([state, context], dim=-1)), state, weights


torch.manual_seed(0)
embed, encoder, decoder = nn.Embedding(SIZE, WIDTH), nn.GRU(WIDTH, WIDTH, batch_first=True), Decoder()
optimizer = torch.optim.AdamW(nn.ModuleList([embed, encoder, decoder]).parameters(), lr=0.01)
for step in range(151):
    source, lengths = torch.randint(1, 10, (32, LENGTH)), torch.full((32,), LENGTH)  # (b,k), (b,)
    encoded, last = encoder(embed(source))  # (b,k,m), (1,b,m)
    token, state, loss, places = torch.full((32,), 10), last[0], torch.zeros(()), []
    for expected in source.flip(1).unbind(1):
        logits, state, weights = decoder(token, state, encoded, lengths)
        loss, token = loss + nn.functional.cross_entropy(logits, expected), expected
        places.append(weights[0].argmax().item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item() / LENGTH:.2f}, looked at positions {places}")
