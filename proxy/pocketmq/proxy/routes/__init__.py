"""Where SDKs send to and receive from: routes and assignments (G-57 to G-63). Pure."""
