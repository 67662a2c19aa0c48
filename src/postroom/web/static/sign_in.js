// Submits the form for people. Programs that preview links do not run scripts, so they cannot use up the link.
document.getElementById("sign-in").requestSubmit();
