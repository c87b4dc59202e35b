"""Recurrent cells: step nets that compute an LSTM, GRU or RNN, recognized by their equations."""
