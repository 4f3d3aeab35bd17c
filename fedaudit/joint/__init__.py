"""An audit by members who show each other no records: who can draw whose strings (docs/joint.md).

* `answering`: A member's answer to what another one asks about its strings.
* `asking`: What a member draws from the model, and what it asks the others.
* `combining`: The members' signed results as one report.
* `counting`: Which of a member's strings came out, and the verdict on them.
* `exchange`: The files that members send each other, signed, and the folder that they lie in.
* `inputs`: A member's records and model, resolved before the model is loaded.
* `intersection`: Private set intersection, with sets padded to public sizes.
* `keys`: Completions, texts and strings as elements of the sets that are intersected.
* `member`: What a member commits to before it asks: its records, the model and the attack.
* `request`: What `fedaudit joint commit` is asked to do.
"""
