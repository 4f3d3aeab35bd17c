"""A client: it trains the global adapter on its own records."""

from pathlib import Path

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from peft import get_peft_model_state_dict, set_peft_model_state_dict

from bank_app.task import RATE, model, texts, train
from fedaudit.flower import name_mod

app = ClientApp(mods=[name_mod])


@app.train()
def fit(message: Message, context: Context) -> Message:
    """Train for a round."""
    config, who = context.run_config, int(context.node_config["partition-id"])
    rounds, number = int(config["rounds"]), int(message.content["config"]["server-round"])
    documents = texts(Path(str(config["data"])) / f"c{who}.jsonl")
    peft = model()
    set_peft_model_state_dict(peft, message.content["arrays"].to_torch_state_dict())
    loss = train(
        peft,
        documents,
        steps=int(config["steps"]),
        seed=1000 * number + who,
        rate=RATE * (1 - (number - 1) / rounds),
    )
    answer = {
        "arrays": ArrayRecord(get_peft_model_state_dict(peft)),
        "metrics": MetricRecord({"num-examples": len(documents), "train_loss": loss}),
    }
    return Message(RecordDict(answer), reply_to=message)
