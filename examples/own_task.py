"""A task from an existing one, with the focal loss (Lin et al. 2017): regard train own_task:FocalClassify."""

from torch.nn.functional import cross_entropy

from regard import tasks
from regard.tasks.classify import Classifier
from regard.tasks.classify.task import ClassificationObjective, ClassifyTask


class FocalClassifier(Classifier):
    """The predictor."""

    task = "focal"


class FocalObjective(ClassificationObjective):
    """The loss, and the predictor that is validated and saved."""

    def loss(self, model, batch):
        losses = cross_entropy(model(batch.tokens, batch.lengths), batch.labels, reduction="none")  # (b,)
        return ((1 - (-losses).exp()) ** 2 * losses).sum()

    def predictor(self, model):
        found = super().predictor(model)
        return FocalClassifier(found.model, found.vocabulary, found.labels, found.extra)


class FocalClassify(ClassifyTask):
    """The task, whose data, model and measures are those of the classifier."""

    name, predictor = "focal", FocalClassifier

    def objective(self, settings, data):
        return FocalObjective(self, settings, data)


if __name__ == "__main__":
    settings = {"data": __file__.replace("own_task.py", "imdb_sample.tsv"), "columns": "3,0", "steps": 30}
    tasks.train(FocalClassify(), settings, "focal-run", show=False)
    print(tasks.load("focal-run", task=FocalClassify())(["A fine film."])[0].lines(scores=True))
