-- Whether the tables that the doors in the wall read exist.
SELECT num_nulls(to_regclass('accounts_apikey'), to_regclass('core_ownertask'), to_regclass('sign_in_knownaddress')) = 0
