-- Whether the tables exist that the functions which bypass the policies read.
SELECT num_nulls(to_regclass('accounts_apikey'), to_regclass('core_ownertask'), to_regclass('sign_in_knownaddress')) = 0
