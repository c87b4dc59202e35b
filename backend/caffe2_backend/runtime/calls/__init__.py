"""What callers hold: workspaces with their nets and plans, predictors, and the profiles of both."""
