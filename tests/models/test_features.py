"""N-grams, convolution, GRU and word dropout below a pooling, and pooling with several heads."""

import itertools

import numpy as np
import pytest
import torch

from regard import reference
from regard.errors import ArgumentError, FileError
from regard.models import TextClassifier, TextClassifierConfig, load_model
from regard.models.features import BidirectionalGRU, Convolution, NgramEmbedding, drop_tokens
from regard.models.heads import AdditivePooling

V, B, N, M, H = 101, 3, 7, 12, 5
LENGTHS = torch.tensor([7, 4, 1])
NETWORKS = {
    "n-grams": {"ngrams": 3, "ngram_buckets": 53},
    "convolution": {"convolution": 5},
    "GRU": {"recurrent_layers": 2},
    "additive heads": {"pooling": "additive", "pooling_heads": H},
    "multi-head": {"pooling": "multihead", "pooling_heads": 3},
    "all below an encoder": {"ngrams": 2, "convolution": 3, "recurrent_layers": 1, "layers": 1},
}


def network(**options):
    torch.manual_seed(0)
    sizes = {"vocabulary_size": V, "classes": 2, "width": M, "heads": 2, "feed_forward": 13, "layers": 0}
    model = TextClassifier(
        TextClassifierConfig(**{**sizes, "pooling": "additive", "dropout": 0.0, **options})
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # the vectors of n-grams start at zero
    return model.double().eval()


def tokens():
    return torch.randint(3, V, (B, N), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("options", NETWORKS.values(), ids=NETWORKS)
def test_padding_has_no_influence(options):
    model, ids = network(**options), tokens()
    together = model(ids, LENGTHS)  # (b,2)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(ids[row : row + 1, :length])  # (1,2)
        torch.testing.assert_close(together[row], alone[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", NETWORKS.values(), ids=NETWORKS)
def test_a_saved_network_gives_the_same_logits(options, tmp_path):
    model, ids = network(**options).float(), tokens()
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(load_model(tmp_path)(ids, LENGTHS), model(ids, LENGTHS), rtol=0, atol=1e-6)


def test_an_ngram_is_its_tokens_in_order():
    ngrams = NgramEmbedding(M, most=3, buckets=2**20)
    rows = {}
    for triple in itertools.permutations([4, 5, 6, 97], 3):
        ids = torch.tensor([triple])
        rows[triple] = int(ngrams.rows(ids, 3)[0, 0])
        assert int(ngrams.rows(ids, 2)[0, 0]) != int(ngrams.rows(ids.flip(1), 2)[0, 1])
    assert len(set(rows.values())) == len(rows)  # the order counts
    longer = torch.tensor([[9, 4, 5, 6, 8]])
    assert int(ngrams.rows(longer, 3)[0, 1]) == rows[4, 5, 6]  # wherever it stands


def test_ngrams_spread_over_the_buckets():
    pairs = torch.tensor(list(itertools.product(range(4, 104), repeat=2)))  # (10000,2)
    rows = NgramEmbedding(M, most=2, buckets=1000).rows(pairs, 2)[:, 0]
    counts = rows.bincount(minlength=1000)
    assert counts.min() > 0
    assert counts.max() < 40  # 10 on average


def test_an_ngram_that_reaches_beyond_the_text_counts_nothing():
    ngrams = NgramEmbedding(M, most=3, buckets=53)
    for table in ngrams.tables:
        torch.nn.init.ones_(table.weight)
    found = ngrams(tokens(), LENGTHS)[..., 0]  # (b,n), the number of n-grams at each token
    assert found.tolist() == [[2, 2, 2, 2, 2, 1, 0], [2, 2, 1, 0, 0, 0, 0], [0] * 7]


def test_new_ngrams_change_nothing():
    assert not NgramEmbedding(M, most=2, buckets=53)(tokens(), LENGTHS).any()


def test_the_convolution_is_a_weighted_sum_of_neighbours():
    layer = Convolution(1, 3)
    with torch.no_grad():
        layer.convolution.weight.copy_(torch.tensor([[[1.0, 10.0, 100.0]]]))
        layer.convolution.bias.zero_()
    x = torch.tensor([[[1.0], [2.0], [3.0], [9.0]]])  # the last is padding
    assert layer(x, torch.tensor([3]))[0, :3, 0].tolist() == [1 + 210, 2 + 321, 3 + 32]


def test_a_gru_reads_both_directions_and_nothing_of_padding():
    torch.manual_seed(0)
    layer = BidirectionalGRU(M, 1).double().eval()
    x = torch.randn(1, N, M, dtype=torch.double, requires_grad=True)
    states = layer(x, torch.tensor([5]))
    assert not states[0, 5:].any()
    (gradient,) = torch.autograd.grad(states[0, 2].sum(), x)
    reached = gradient[0].abs().sum(dim=-1) > 0
    assert reached.tolist() == [True] * 5 + [False] * 2


def test_additive_heads_are_those_of_the_oracle():
    torch.manual_seed(0)
    pooling = AdditivePooling(M, H).double()
    torch.nn.init.normal_(pooling.query)
    states, records = torch.randn(B, N, M, dtype=torch.double), []
    pooled = pooling(states, LENGTHS, records=records)
    weights = records[0].map.weights()  # (b,h,1,n)
    assert weights.shape == (B, H, 1, N)
    assert len(torch.unique(weights[0, :, 0, 0])) == H
    queries, v = pooling.query.detach().numpy(), pooling.v.detach().numpy()  # (h,m) each
    keys = states.numpy() @ pooling.W.weight.detach().numpy().T  # (b,n,m)
    for row, length in enumerate(LENGTHS.tolist()):
        hidden = np.tanh(queries[:, None] + keys[row, None, :length])  # (h,n,m)
        scores = np.einsum("hnm,hm->hn", hidden, v)
        expected = reference.softmax(scores)
        np.testing.assert_allclose(weights[row, :, 0, :length].detach(), expected, atol=1e-12)
        context = torch.from_numpy(expected @ states[row, :length].numpy()).flatten()
        assert pooling.W_o is not None
        torch.testing.assert_close(pooled[row], pooling.W_o(context))


def test_word_dropout_is_for_training_only():
    torch.manual_seed(0)
    ids = torch.full((100, 100), 7)
    dropped = drop_tokens(ids, 0.3)
    assert set(dropped.unique().tolist()) == {0, 7}
    assert 0.28 < (dropped == 0).double().mean() < 0.32
    model = network(word_dropout=0.5)
    torch.testing.assert_close(model(tokens()), model(tokens()), rtol=0, atol=0)
    model.train()
    assert (model(tokens()) - model(tokens())).abs().max() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"convolution": 4}, "convolution: expected an odd number of tokens, or 0 for none, got 4"),
        ({"recurrent_layers": 1, "width": 11, "heads": 1}, "width: expected an even number .* got 11"),
        ({"ngrams": 0}, "ngrams: expected a whole number of 1 or more"),
        ({"ngram_buckets": 0}, "ngram_buckets: expected a whole number of 1 or more"),
        ({"word_dropout": 1.0}, "word_dropout: expected a share from 0 to below 1"),
        ({"pooling_heads": 0}, "pooling_heads: expected a whole number of 1 or more"),
        ({"pooling": "multihead", "pooling_heads": 5}, "pooling_heads: 5 heads do not divide width = 12"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        network(**options)


def test_settings_that_do_not_fit_the_file_are_refused(tmp_path):
    network(ngrams=2, ngram_buckets=53).save_pretrained(tmp_path)
    config = (tmp_path / "config.json").read_text(encoding="utf-8")
    (tmp_path / "config.json").write_text(
        config.replace('"ngram_buckets": 53', '"ngram_buckets": 4611686018427')
    )
    with pytest.raises(FileError, match=r"ngrams\.tables\.0\.weight is \(53, 12\), the settings say"):
        load_model(tmp_path)
