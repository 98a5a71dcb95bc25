# SPDX-License-Identifier: Apache-2.0
"""The network of translate.py: an encoder-decoder with attention.

    source words -> embedding -> GRU forwards and backwards -> memory (a vector per word)
    target words -> embedding -> GRU -> looks up the memory -> readout -> next word

The decoder sees the words before, not what it looked up before, so that in training all
places of a sentence look up the memory at once. With layer normalization what goes into
the gates of the GRUs, from below and from the place before, and into the readout is
normalized. Tensors are time x batch x features.
"""
import torch
from torch import nn
from torch.nn.functional import layer_norm

from translation import BEGIN, END, PAD

CLOSED = 1e4  # makes a GRU's update gate keep the state exactly


class Normal(nn.Module):
    """x * gain + bias, with x normalized before, or only x + bias."""

    def __init__(self, on, directions, features):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(directions, 1, features)) if on else None
        self.bias = nn.Parameter(torch.zeros(directions, 1, features))

    def forward(self, x):
        if self.gain is None:
            return x + self.bias
        return torch.addcmul(self.bias, layer_norm(x, x.shape[-1:]), self.gain)


class Gru(nn.Module):
    """One GRU, or two that go beside each other: directions x time x batch x features."""

    def __init__(self, directions, features, hidden, norm):
        super().__init__()
        self.hidden = hidden
        spread = hidden ** -0.5
        self.below = nn.Parameter(
            torch.empty(directions, features, 3 * hidden).uniform_(-spread, spread))
        self.before = nn.Parameter(
            torch.empty(directions, hidden, 3 * hidden).uniform_(-spread, spread))
        self.norm_below = Normal(norm, directions, 3 * hidden)
        self.norm_before = Normal(norm, directions, 3 * hidden)

    def forward(self, x, h, pad=None):
        """The states after each place. Where pad is 1 the state stays what it was."""
        d, time, batch, features = x.shape
        gates = self.norm_below(torch.bmm(x.reshape(d, time * batch, features), self.below))
        reset_update, new = gates.view(d, time, batch, -1).split(
            [2 * self.hidden, self.hidden], -1)
        if pad is not None:
            still = torch.zeros(2 * self.hidden)
            still[self.hidden:] = CLOSED
            reset_update = reset_update + pad.unsqueeze(-1) * still
        states = []
        for below, below_new in zip(reset_update.unbind(1), new.unbind(1)):
            before, before_new = self.norm_before(torch.bmm(h, self.before)).split(
                [2 * self.hidden, self.hidden], -1)
            reset, update = torch.sigmoid(below + before).chunk(2, -1)
            candidate = torch.tanh(torch.addcmul(below_new, reset, before_new))
            h = torch.lerp(candidate, h, update)
            states.append(h)
        return torch.stack(states, 1)


class Translator(nn.Module):
    def __init__(self, source_words, target_words, embedding=192, hidden=192, norm=False):
        super().__init__()
        self.hidden = hidden
        self.source = nn.Embedding(source_words, embedding)
        self.target = nn.Embedding(target_words, embedding)
        self.encoder = Gru(2, embedding, hidden, norm)
        self.first = nn.Linear(hidden, hidden)
        self.keys = nn.Linear(2 * hidden, hidden, bias=False)
        self.decoder = Gru(1, embedding, hidden, norm)
        self.readout = nn.Linear(3 * hidden, embedding, bias=False)
        self.norm_readout = Normal(norm, 1, embedding)
        self.words = nn.Linear(embedding, target_words)

    def encode(self, source):
        """source: time x batch. The memory, its keys, where it is padding, and the first
        state of the decoder."""
        pad = (source == PAD).float()
        x = self.source(source)
        states = self.encoder(torch.stack([x, x.flip(0)]),
                              x.new_zeros(2, source.shape[1], self.hidden),
                              torch.stack([pad, pad.flip(0)]))
        memory = torch.cat([states[0], states[1].flip(0)], -1).transpose(0, 1)
        hidden_places = (pad.t() * -CLOSED).unsqueeze(1)
        first = torch.tanh(self.first(states[1, -1])).unsqueeze(0)
        return memory, self.keys(memory).transpose(1, 2), hidden_places, first

    def look_up(self, states, memory, keys, hidden_places):
        """What the decoder's states (time x batch x hidden) find, ready for the choice of
        a word: (time x batch) x embedding."""
        by_sentence = states.transpose(0, 1)
        weights = torch.softmax(torch.bmm(by_sentence, keys) + hidden_places, -1)
        found = torch.cat([by_sentence, torch.bmm(weights, memory)], -1)
        return torch.tanh(self.norm_readout(self.readout(found).flatten(0, 1))[0])

    def forward(self, source, target):
        """Scores of the word at each place of target but the first, sentence by sentence,
        without the padding."""
        memory, keys, hidden_places, first = self.encode(source)
        states = self.decoder(self.target(target[:-1]).unsqueeze(0), first)[0]
        found = self.look_up(states, memory, keys, hidden_places)
        return self.words(found[target[1:].t().flatten() != PAD])

    @torch.no_grad()
    def translate(self, source, longest):
        """Word numbers of each sentence, always the most probable one."""
        memory, keys, hidden_places, h = self.encode(source)
        word = torch.full((1, source.shape[1]), BEGIN)
        done = torch.zeros(source.shape[1], dtype=torch.bool)
        chosen = []
        for _ in range(longest):
            h = self.decoder(self.target(word).unsqueeze(0), h)[0]
            word = self.words(self.look_up(h, memory, keys, hidden_places)).argmax(-1)[None]
            chosen.append(word[0])
            done |= word[0] == END
            if done.all():
                break
        return torch.stack(chosen, 1).tolist()
