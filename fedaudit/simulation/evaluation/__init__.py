"""What a federation is worth and costs: utility, answers, judge, cost."""
