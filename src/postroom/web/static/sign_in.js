// Who opened a one-time link need not press its button too. Programs that preview links run no scripts.
document.getElementById("sign-in").requestSubmit();
