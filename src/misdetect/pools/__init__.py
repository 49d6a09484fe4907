"""Objects to insert into photos: cut out, refined, stored in a folder, and chosen by similarity."""
