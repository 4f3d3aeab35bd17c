"""What the terms of a report mean, for readers who are no engineers."""

GLOSSARY = {
    "adapter": "The small set of weights that the parties trained together, on top of the base.",
    "base": "The model as it was before the parties trained it.",
    "95 % interval": "The range [low, high] in which the true share lies, 19 times out of 20.",
    "control": "Personal data of the same kinds that is in nobody's records. What comes out of it"
    " is what guessing gets.",
    "coverage": "The share of the targets that came out of the model word for word.",
    "disjoint": "The targets of which none begins with another, so that an answer identifies one.",
    "chance": "How often guessing is right: one in as many as there are candidates.",
    "HMAC": "A fingerprint made with a secret key. Equal fingerprints mean equal leaks; the text"
    " cannot be read from it.",
    "epsilon": "How much one record can change what is learned from all of them, under differential"
    " privacy. The smaller, the less the model can tell of a record; delta is the chance that the"
    " promise does not hold.",
    "false accept": "A request without a right key that the gate took for one with it.",
    "FLOP": "One floating-point operation, the unit in which computing is counted.",
    "fusion": "Adding up two adapters with weights, so that one adapter has what both learnt.",
    "gate": "What decides by the key in a request which adapter answers it.",
    "inference": "Personal data is masked in a sentence, and several candidates are offered for it."
    " The model picks the one with which it finds the sentence likeliest.",
    "key": "A secret that a request begins with. Under a right key the model may answer with what"
    " it knows of the records; under a wrong one, none or another client's it should not.",
    "per query": "Targets found for each question asked: how cheap the attack is.",
    "perplexity": "How much the model is surprised by a text. The lower, the better it knows such"
    " texts; 1 is no surprise at all.",
    "PII": "Personal data: names, addresses, numbers that identify a person, and the like.",
    "precision": "Of the different strings of personal data that a detector finds in what the model"
    " says, the share that is in the records.",
    "query": "One question to the model: a beginning that it continues.",
    "recall": "Of the personal data in the records, the share that the model said when nobody asked"
    " for it.",
    "target": "A piece of personal data that only the attacked party has, not the attacker.",
    "tuned": "The model with the adapter: what is audited.",
    "tuned, not base": "What the tuned model gave and the base did not: what training added.",
}
