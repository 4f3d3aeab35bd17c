"""What each installed defence would have bought and cost: the federation trained again under it."""
